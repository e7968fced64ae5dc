"""Forward actions and probes as outcomes; asserted on what the functions did and on what the engine gets to see."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator
from tests.tools.shop import World, call, context, facts, serve, shop, undo

from saga_mcp.domain.frozen import PartLimits
from saga_mcp.domain.values import Effect
from saga_mcp.tools.declared import declare
from saga_mcp.tools.port import Arguments, GivesUp, Landed, Missed, NoVerdict, Undone
from saga_mcp.tools.python import PythonRegistry, PythonThreads
from saga_mcp.tools.running import MOST_THREADS
from saga_mcp.tools.unsent import InvalidArguments
from saga_tools import Call, NoEffect, Retry, ToolRegistry, Undo
from saga_tools.server import add


async def test_a_result_is_structured_and_exact() -> None:
    world = World()
    outcome = await call(serve(shop(world)), "shop.charge", {"cents": 5})
    assert isinstance(outcome, Landed)
    assert outcome.result == {"id": 0, "at": "2026-01-02"}
    assert outcome.answer.structured == outcome.result
    assert json.loads(outcome.answer.text) == outcome.result
    assert world.charges == {0: 5}
    assert world.seen == ["key-2"]


async def test_a_result_that_is_no_object_is_wrapped_in_the_answer_only() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="read_only")
    def count() -> int:
        return 2**70

    outcome = await call(serve(registry), "shop.count", {})
    assert isinstance(outcome, Landed)
    assert outcome.result == 2**70
    assert outcome.answer.structured == {"result": 2**70}
    assert outcome.answer.text == f'{{"result": {2**70}}}'


@pytest.mark.case(54)
async def test_a_result_that_json_cannot_carry_does_not_lose_the_effect() -> None:
    registry, done = ToolRegistry(), list[str]()

    @registry.tool(kind="pivot")
    def pay() -> dict[str, Any]:
        done.append("paid")
        return {"d": Decimal("1.5"), "b": b"\xff", "n": float("nan"), "s": {1}, "o": threading.Lock()}

    outcome = await call(serve(registry), "shop.pay", {})
    assert done == ["paid"]
    assert isinstance(outcome, Landed)
    assert json.loads(outcome.answer.text) == outcome.result
    assert isinstance(outcome.result, dict)
    assert outcome.result["n"] is None
    assert outcome.result["s"] == [1]


@pytest.mark.parametrize(
    ("error", "effect"),
    [
        (ValueError("no"), Effect.UNKNOWN),
        (NoEffect("refused"), Effect.NONE),
        (SystemExit(1), Effect.UNKNOWN),
        (KeyboardInterrupt(), Effect.UNKNOWN),
        (asyncio.CancelledError(), Effect.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
async def test_an_exception_is_an_answer_of_unknown_effect_unless_it_says_no_effect(
    error: BaseException, effect: Effect
) -> None:
    """S4.5."""
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    async def send() -> None:
        raise error

    outcome = await call(serve(registry), "shop.send", {})
    assert isinstance(outcome, Missed)
    assert outcome.effect is effect
    assert outcome.answer.is_error
    assert outcome.answer.text == outcome.error
    assert outcome.error.startswith(type(error).__name__)
    assert "Traceback" not in outcome.error


async def test_an_author_can_say_that_errors_mean_no_effect() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot", error_means="no_effect")
    def send() -> None:
        raise ValueError("no")

    outcome = await call(serve(registry), "shop.send", {})
    assert isinstance(outcome, Missed)
    assert outcome.effect is Effect.NONE


@pytest.mark.case(55, 56)
def test_arguments_are_decoded_by_the_functions_own_schema() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="read_only")
    def look(items: list[int], note: str, more: int = 7) -> None: ...

    tool = serve(registry).offered["look"]
    assert tool.decode({"items": "[1, 2]", "note": "null"}).json == {"items": [1, 2], "note": "null", "more": 7}
    with pytest.raises(InvalidArguments) as caught:
        tool.decode({"itmes": [1], "note": 1})
    assert caught.value.problems == (
        "items: is required",
        "note: input should be a valid string",
        "itmes: is not an argument, did you mean `items`?",
    )


async def test_a_running_call_registers_the_undo_of_a_part_by_name() -> None:
    registry, world = ToolRegistry(), World()

    @registry.part
    def release(ip: str, undo: Undo[Any]) -> None:
        world.seen.append((ip, undo.result))

    @registry.tool(kind="pivot")
    async def deploy(call: Call) -> None:
        await call.on_undo(release, ip="10.0.0.1")

    catalogue = serve(registry)
    await call(catalogue, "shop.deploy", {}, world)
    assert world.registered == [("shop.release", {"ip": "10.0.0.1"})]
    assert (
        await undo(catalogue, "shop.release", {"ip": "10.0.0.1"}, facts({}, known=False, tool="shop.deploy"))
        == Undone()
    )
    assert world.seen == [("10.0.0.1", None)]


async def test_a_plain_tool_registers_a_part_through_a_loop_of_its_own() -> None:
    registry, world = ToolRegistry(), World()

    @registry.part
    def release(ip: str) -> None: ...

    @registry.tool(kind="pivot")
    def deploy(call: Call) -> None:
        asyncio.run(call.on_undo(release, ip="10.0.0.1"))

    assert isinstance(await call(serve(registry), "shop.deploy", {}, world), Landed)
    assert world.registered == [("shop.release", {"ip": "10.0.0.1"})]


Picky = Annotated[int, AfterValidator(lambda value: {1: value}[value])]
"""Its validator raises KeyError, which pydantic lets through."""


async def test_an_authors_validator_may_raise_anything() -> None:
    registry, called = ToolRegistry(), list[int]()

    @registry.tool
    def put(value: Picky) -> None:
        called.append(value)

    @registry.undoes(put)
    def take(value: Picky) -> None:
        called.append(value)

    @registry.probes(put)
    def has(value: Picky) -> None:
        called.append(value)

    add(registry, put, name="put_too")
    catalogue = serve(registry)
    tool = catalogue.offered["put"]
    with anyio.fail_after(5):
        with pytest.raises(InvalidArguments, match="cannot be read: KeyError"):
            tool.decode({"value": 2})
        missed = await tool.call(Arguments({"value": 2}), context(World()))
        assert isinstance(missed, Missed)
        assert (missed.effect, missed.error) == (Effect.NONE, "InvalidArguments: cannot be read: KeyError")
        assert await tool.probe(facts({"value": 2})) == NoVerdict(error="schema changed: cannot be read: KeyError")
        changed = GivesUp(message="schema changed: cannot be read: KeyError")
        assert await undo(catalogue, "shop.take", {"value": 2}, facts({})) == changed
        assert await undo(catalogue, "shop.put_too", {"value": 2}, facts({})) == changed
    assert called == []


async def test_reads_that_hang_keep_no_write_from_starting() -> None:
    registry, hanging, go_on = ToolRegistry(), threading.Semaphore(0), threading.Event()

    @registry.tool(kind="read_only")
    def look() -> None:
        hanging.release()
        go_on.wait(20)

    @registry.tool(kind="pivot")
    def write() -> None: ...

    catalogue = serve(registry)

    async def look_once() -> None:
        await call(catalogue, "shop.look", {})

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(MOST_THREADS):
                tasks.start_soon(look_once)
            try:
                for _ in range(MOST_THREADS):
                    assert await asyncio.to_thread(hanging.acquire, timeout=5)
                assert isinstance(await call(catalogue, "shop.write", {}), Landed)
            finally:
                go_on.set()


async def test_a_tool_without_a_probe_gives_no_verdict() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def send() -> None: ...

    verdict = await serve(registry).offered["send"].probe(facts({}))
    assert verdict == NoVerdict(error="it has no probe any more")


async def test_only_a_running_forward_action_registers_undos() -> None:
    registry = ToolRegistry()

    @registry.part
    def release() -> None: ...

    @registry.tool(kind="pivot")
    def send() -> int:
        return 1

    @registry.probes(send)
    async def sent(call: Call) -> int | None:
        await call.on_undo(release)
        return 1

    verdict = await serve(registry).offered["send"].probe(facts({}))
    assert verdict == NoVerdict(error="SagaToolsError: a probe registers no undo")


async def test_only_an_undo_or_a_part_can_be_registered() -> None:
    registry, world = ToolRegistry(), World()

    @registry.tool(kind="pivot")
    async def deploy(call: Call) -> None:
        await call.on_undo(print)

    missed = await call(serve(registry), "shop.deploy", {}, world)
    assert isinstance(missed, Missed)
    assert missed.error.startswith("PairError: print: on_undo was given `print`")
    assert world.registered == []


async def test_a_part_is_registered_with_the_limits_that_its_author_gave_it() -> None:
    """S6.1: what is written elsewhere later changes new steps only."""
    registry, world = ToolRegistry(), World()

    @registry.part(idempotent=False, timeout_s=3, retry=Retry(attempts=2, first_delay_s=1, max_delay_s=4))
    async def release() -> None: ...

    @registry.part
    def plain() -> None: ...

    @registry.tool(kind="pivot")
    async def deploy(call: Call) -> None:
        await call.on_undo(release)
        await call.on_undo(plain)

    await call(serve(registry), "shop.deploy", {}, world)
    assert [(part.tool, part.idempotent, part.limits) for part in world.parts] == [
        ("shop.release", False, PartLimits(timeout_s=3, attempts=2, first_delay_s=1, max_delay_s=4)),
        ("shop.plain", True, PartLimits(timeout_s=30, attempts=8, first_delay_s=1, max_delay_s=300)),
    ]


def test_an_undo_acts_where_its_registry_acts() -> None:
    registry = ToolRegistry()

    @registry.part
    async def release() -> None: ...

    def tool() -> None: ...

    add(registry, tool)
    catalogue = serve(registry)
    found = [catalogue.undoer(f"shop.{name}") for name in ("release", "tool")]
    assert [(each.stoppable, each.target_id) for each in found if each] == [
        (True, declare("shop", registry).target_id),
        (False, declare("shop", registry).target_id),
    ]


async def test_a_cancelled_start_is_no_failure_of_a_lifespan() -> None:
    @contextlib.asynccontextmanager
    async def clients() -> AsyncGenerator[None]:
        await anyio.sleep_forever()
        yield

    served = PythonRegistry(declare("shop", ToolRegistry(lifespan=clients)), PythonThreads())
    with anyio.fail_after(5), anyio.move_on_after(0.01) as scope:
        async with served.opened():
            pytest.fail("it did not open")
    assert scope.cancelled_caught


def test_a_tool_says_how_it_is_listed_and_stopped() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="read_only", title="Look around")
    async def look(place: str) -> int:
        """Look.

        Args:
            place: Where.
        """
        return len(place)

    @registry.tool(kind="read_only")
    def bare():  # type: ignore[no-untyped-def]  # noqa: ANN202 - that it has no annotation is the point
        ...

    offered = serve(registry).offered
    listing = offered["look"].listing
    assert (listing.title, listing.description, offered["look"].stoppable) == ("Look around", "Look.", True)
    assert listing.input_schema["required"] == ["place"]
    assert listing.output_schema is not None
    assert offered["bare"].listing.output_schema is None
    assert not offered["bare"].stoppable
