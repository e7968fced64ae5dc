"""Python functions that other tools' steps look at the world with (S6.6, S6.7)."""

import anyio
from tests.tools.shop import World, facts, serve, shop

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.port import ReadAnswer, ReadFailed, ReadOutcome
from saga_tools import ToolRegistry


async def test_a_read_only_tool_can_be_read_by_others_and_answers_with_its_error() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="read_only")
    def look(place: str) -> dict[str, int]:
        if place == "nowhere":
            raise LookupError(place)
        return {"n": 2**70}

    catalogue = serve(registry)

    async def read(args: JsonObject) -> ReadOutcome:
        reader = catalogue.reader("shop.look")
        assert reader is not None
        with anyio.fail_after(5):
            return await reader.read(args, facts({}))

    assert await read({"place": "here"}) == ReadAnswer(text=f'{{"n": {2**70}}}', result={"n": 2**70})
    error = "LookupError: nowhere"
    assert await read({"place": "nowhere"}) == ReadAnswer(text=error, is_error=True, error=error)
    # Nothing was looked at, so nothing was found or missed.
    assert isinstance(await read({"plaace": "here"}), ReadFailed)


def test_only_a_read_only_tool_is_a_reader() -> None:
    assert serve(shop(World())).reader("shop.charge") is None
