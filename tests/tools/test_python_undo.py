"""Undos as outcomes, and what a registry holds open for them and for its tools."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from tests.tools.shop import Charge, World, call, facts, serve, shop, undo

from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Urgency
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.catalogue import catalogue_of
from saga_mcp.tools.declared import declare
from saga_mcp.tools.port import (
    AsksPerson,
    GivesUp,
    Landed,
    UndoContext,
    UndoMissed,
    Undone,
    UndoOutcome,
)
from saga_mcp.tools.python import LifespanFailed, PythonRegistry, PythonThreads
from saga_tools import Call, CannotUndo, NeedsPerson, NoEffect, ToolRegistry, Undo
from saga_tools.server import ErrorMeans, add


async def test_an_undo_gets_the_arguments_and_the_result_in_todays_types() -> None:
    world = World()
    catalogue = serve(shop(world))
    await call(catalogue, "shop.charge", {"cents": 5})
    outcome = await undo(catalogue, "shop.refund", {"cents": 5}, facts({"cents": 5}, {"id": 0, "at": "2026-01-02"}))
    assert outcome == Undone()
    assert world.charges == {}
    seen = world.seen[-1]
    assert seen.result == Charge(id=0)
    assert (seen.call_key, seen.key, seen.cause, seen.args) == ("key-2", "key-2.u1.g1", "agent", {"cents": 5})


async def test_an_undo_of_a_step_in_doubt_gets_no_result() -> None:
    registry, seen = ToolRegistry(), list[Charge | None]()

    @registry.tool
    def charge() -> Charge:
        return Charge(id=1)

    @registry.undoes(charge)
    def refund(undo: Undo[Charge]) -> None:
        seen.append(undo.result)

    assert await undo(serve(registry), "shop.refund", {}, facts({}, known=False)) == Undone()
    assert seen == [None]


@pytest.mark.parametrize(
    ("args", "result"),
    [
        pytest.param({"cents": "5 EUR"}, {"id": 0}, id="argument"),
        pytest.param({"cents": 5, "currency": "EUR"}, {"id": 0}, id="argument-gone"),
        pytest.param({"cents": 5}, {"id": "ch_0"}, id="result"),
    ],
)
async def test_stored_values_that_fit_no_more_are_for_a_person_and_nothing_is_called(
    args: JsonObject, result: JsonValue
) -> None:
    """S6.9."""
    world = World(charges={0: 5})
    outcome = await undo(serve(shop(world)), "shop.refund", args, facts({"cents": 5}, result))
    assert isinstance(outcome, GivesUp)
    assert outcome.message.startswith("schema changed: ")
    assert world.charges == {0: 5}
    assert world.seen == []


@pytest.mark.case(63)
@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NeedsPerson("by hand", urgency="high"), AsksPerson(message="by hand", urgency=Urgency.HIGH)),
        (CannotUndo("too old"), GivesUp(message="CannotUndo: too old")),
        (NoEffect("locked"), UndoMissed(error="NoEffect: locked", effect=Effect.NONE, answered=True)),
        (ValueError("no"), UndoMissed(error="ValueError: no", effect=Effect.UNKNOWN, answered=True)),
        (SystemExit(2), UndoMissed(error="SystemExit: 2", effect=Effect.UNKNOWN, answered=True)),
        (KeyboardInterrupt(), UndoMissed(error="KeyboardInterrupt", effect=Effect.UNKNOWN, answered=True)),
        (asyncio.CancelledError(), UndoMissed(error="CancelledError", effect=Effect.UNKNOWN, answered=True)),
        (
            ExceptionGroup("two", [ValueError("a")]),
            UndoMissed(error="ExceptionGroup: two (ValueError: a)", effect=Effect.UNKNOWN, answered=True),
        ),
        (RecursionError("deep"), UndoMissed(error="RecursionError: deep", effect=Effect.UNKNOWN, answered=True)),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_what_an_undo_raises_is_an_outcome(*, error: BaseException, outcome: UndoOutcome, is_async: bool) -> None:
    registry = ToolRegistry()

    @registry.tool
    def write() -> None: ...

    async def erase_async() -> None:
        raise error

    def erase_plainly() -> None:
        raise error

    erase = erase_async if is_async else erase_plainly
    registry.undoes(write)(erase)
    assert await undo(serve(registry), f"shop.{erase.__name__}", {}, facts({})) == outcome


async def test_a_lifespan_yields_what_tools_and_undos_share() -> None:
    events: list[str] = []

    @contextlib.asynccontextmanager
    async def clients() -> AsyncGenerator[str]:
        events.append("opened")
        yield "client"
        events.append("closed")

    registry = ToolRegistry(lifespan=clients)

    @registry.tool
    def write(call: Call) -> str:
        return str(call.deps)

    @registry.undoes(write)
    def erase(undo: Undo[str]) -> None:
        events.append(undo.deps)

    declared = declare("shop", registry)
    served = PythonRegistry(declared, PythonThreads())
    catalogue = catalogue_of([declared], {"shop": served})
    async with served.opened():
        outcome = await call(catalogue, "shop.write", {})
        assert isinstance(outcome, Landed)
        assert outcome.result == "client"
        await undo(catalogue, "shop.erase", {}, facts({}, "client", tool="shop.write"))
    assert events == ["opened", "client", "closed"]


@pytest.mark.parametrize("error", [OSError("no network"), SystemExit(1)], ids=["error", "exit"])
async def test_a_lifespan_that_does_not_open_says_whose_it_is(error: BaseException) -> None:
    @contextlib.asynccontextmanager
    async def clients() -> AsyncGenerator[None]:
        raise error
        yield

    served = PythonRegistry(declare("shop", ToolRegistry(lifespan=clients)), PythonThreads())
    with pytest.raises(LifespanFailed, match=r"lifespan of python\.shop failed: " + type(error).__name__):
        async with served.opened():
            pytest.fail("it did not open")


async def test_a_lifespan_that_does_not_close_does_not_stop_the_others() -> None:
    @contextlib.asynccontextmanager
    async def clients() -> AsyncGenerator[None]:
        yield
        raise OSError("already gone")

    served = PythonRegistry(declare("shop", ToolRegistry(lifespan=clients)), PythonThreads())
    async with served.opened():
        pass


def test_a_target_is_the_registrys_own_name_or_else_the_configs() -> None:
    """S1.2: two configs that name one registry differently still undo in the same place, if its author named it."""
    named = declare("a", ToolRegistry(name="billing")).target_id
    assert named == declare("b", ToolRegistry(name="billing")).target_id
    assert declare("a", ToolRegistry()).target_id != declare("b", ToolRegistry()).target_id


def plain_tools(functions: list[Callable[..., Any]]) -> ToolRegistry:
    registry = ToolRegistry()
    for function in functions:
        add(registry, function)
    return registry


async def test_a_plain_tool_undoes_with_the_undos_own_key() -> None:
    seen: list[object] = []

    async def delete(lead: int, call: Call) -> None:
        seen.append((lead, call.key))

    catalogue = serve(plain_tools([delete]))
    assert await undo(catalogue, "shop.delete", {"lead": 4}, facts({})) == Undone()
    assert seen == [(4, "key-2.u1.g1")]


async def test_a_plain_tool_whose_arguments_changed_is_not_called_as_an_undo() -> None:
    called: list[int] = []

    def delete(lead: int) -> None:
        called.append(lead)

    outcome = await undo(serve(plain_tools([delete])), "shop.delete", {"lead_id": 4}, facts({}))
    assert isinstance(outcome, GivesUp)
    assert outcome.message == ("schema changed: lead: is required; lead_id: is not an argument, did you mean `lead`?")
    assert called == []


@pytest.mark.parametrize(
    ("then", "effect"), [("unknown", Effect.UNKNOWN), ("no_effect", Effect.NONE), (None, Effect.NONE)]
)
async def test_a_plain_tools_error_proves_what_it_proved_at_the_intent(then: ErrorMeans | None, effect: Effect) -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot", error_means="no_effect")
    def delete() -> None:
        raise ValueError("no")

    undoer = serve(registry).undoer("shop.delete")
    assert undoer is not None
    rules = None if then is None else AnswerRules(error_means=then)
    context = UndoContext(step=facts({}), undo_key="k", cause="agent", rules=rules)
    with anyio.fail_after(5):
        assert await undoer.undo({}, context) == UndoMissed(error="ValueError: no", effect=effect, answered=True)


async def test_an_undo_whose_forward_action_is_gone_is_for_a_person_and_is_not_called() -> None:
    """S6.9: raw JSON is not what an `Undo` of the author's own types promises."""
    world = World(charges={0: 5})
    step = facts({"cents": 5}, {"id": 0, "at": "2026-01-02"}, tool="shop.charge_card")
    outcome = await undo(serve(shop(world)), "shop.refund", {"cents": 5}, step)
    assert outcome == GivesUp(
        message="schema changed: shop.charge_card is not in python.shop, so its arguments and result cannot be read"
    )
    assert (world.charges, world.seen) == ({0: 5}, [])


async def test_what_an_undo_changes_in_the_results_no_other_undo_sees() -> None:
    registry, seen = ToolRegistry(), list[object]()
    stored: dict[str, JsonValue] = {"one": {"x": [1]}}

    @registry.tool
    def one() -> dict[str, Any]:
        return {}

    @registry.undoes(one)
    def unone(undo: Undo[dict[str, Any]]) -> None:
        seen.append((list(undo.results["one"]["x"]), len(undo.results)))
        undo.results["one"]["x"].append(999)
        seen.append(list(undo.results["one"]["x"]))

    catalogue = serve(registry)
    step = replace(facts({}, {}, tool="shop.one"), results=stored)
    for _ in range(2):
        assert await undo(catalogue, "shop.unone", {}, step) == Undone()
    assert seen == [([1], 1), [1, 999], ([1], 1), [1, 999]]
    assert stored == {"one": {"x": [1]}}


async def test_a_shared_undo_reads_the_result_as_the_action_it_undoes_made_it() -> None:
    registry, seen = ToolRegistry(), list[object]()

    @registry.tool
    def reserve() -> Charge:
        return Charge(id=1)

    @registry.tool
    def note(text: str) -> str:
        return text

    @registry.undoes(reserve)
    @registry.undoes(note)
    def erase(undo: Undo[Any]) -> None:
        seen.append(undo.result)

    catalogue = serve(registry)
    await undo(catalogue, "shop.erase", {}, facts({"text": "a"}, "a", tool="shop.note"))
    reserved = facts({}, {"id": 1, "at": "2026-01-02"}, tool="shop.reserve")
    await undo(catalogue, "shop.erase", {}, reserved)
    assert seen == ["a", Charge(id=1)]
