"""What a probe's answer proves; asserted on what the engine gets to see."""

from typing import Any

import anyio
import pytest
from tests.tools.shop import Charge, Numpys, World, facts, serve, shop

from saga_mcp.tools.port import Absent, Landed, NoVerdict, ProbeVerdict
from saga_tools import ToolRegistry


async def test_a_probe_says_landed_or_absent_and_sees_the_steps_key() -> None:
    world = World(charges={3: 5})
    tool = serve(shop(world)).offered["charge"]
    with anyio.fail_after(5):
        found = await tool.probe(facts({"cents": 5}, known=False))
        assert isinstance(found, Landed)
        assert found.result == {"id": 3, "at": "2026-01-02"}
        assert await tool.probe(facts({"cents": 6}, known=False)) == Absent()
    assert world.seen == ["key-2", "key-2"]


async def test_a_probe_that_fails_gives_no_verdict() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def send() -> int:
        return 1

    @registry.probes(send)
    def sent() -> int | None:
        raise SystemExit

    with anyio.fail_after(5):
        assert await serve(registry).offered["send"].probe(facts({})) == NoVerdict(error="SystemExit")


@pytest.mark.parametrize("result", [str, int, float, bool, dict[str, Any], Charge, None, Any])
@pytest.mark.parametrize("said", [False, Numpys(says=False)], ids=["False", "numpy's"])
async def test_a_probe_that_says_false_has_not_found_the_step(result: object, said: object) -> None:
    """What never happened must not be taken for paid."""
    verdict = await verdict_of(said, result)
    assert isinstance(verdict, NoVerdict)
    assert "returned False" in verdict.error
    assert "None where it did not happen" in verdict.error


@pytest.mark.parametrize(
    ("said", "result"),
    [
        (True, int),
        (True, float),
        (True, str),
        (True, Charge),
        (0, str),
        ("", int),
        ({}, Charge),
        ({}, list[int]),
        ([], dict[str, Any]),
        (object(), int),
        (Numpys(says=True), int),
    ],
)
async def test_a_probe_that_answers_with_what_is_no_result_gives_no_verdict(said: object, result: object) -> None:
    verdict = await verdict_of(said, result)
    assert isinstance(verdict, NoVerdict)
    assert f"a value of type {type(said).__name__}, which is no result of `pay`" in verdict.error


@pytest.mark.parametrize(
    ("said", "result"),
    [(True, bool), (0, int), ("", str), ({}, dict[str, Any]), (0, Any), (Charge(id=1), Charge), ({"id": 1}, Charge)],
)
async def test_a_probe_that_answers_with_a_result_has_found_the_step(said: object, result: object) -> None:
    assert isinstance(await verdict_of(said, result), Landed)


async def verdict_of(said: object, result: object) -> ProbeVerdict:
    def pay() -> object:
        raise NotImplementedError

    def paid() -> Any:  # noqa: ANN401 - nothing that registration could refuse
        return said

    pay.__annotations__["return"] = result
    registry = ToolRegistry()
    registry.tool(kind="pivot")(pay)
    registry.probes(pay)(paid)
    with anyio.fail_after(5):
        return await serve(registry).offered["pay"].probe(facts({}))
