"""Call and Undo: what they hold, and that a tool is tested without a server."""

import pickle
from collections.abc import Callable, Mapping

import pytest

from saga_mcp.domain.ids import undo_key
from saga_tools import Call, CannotUndo, NeedsPerson, NoEffect, SagaToolsError, Undo


def release(ip: str) -> None:
    """Stand for a part."""


async def test_what_a_tool_registers_is_visible_to_its_unit_test() -> None:
    undos: list[tuple[Callable[..., object], dict[str, object]]] = []
    call = Call.for_test(key="k", saga_id="sg-1", step=2, attempt=3, deps="clients", undos=undos)
    await call.on_undo(release, ip="10.0.0.1")
    assert undos == [(release, {"ip": "10.0.0.1"})]
    assert (call.key, call.saga_id, call.step, call.attempt, call.deps) == ("k", "sg-1", 2, 3, "clients")


async def test_what_a_tool_reports_is_visible_to_its_unit_test() -> None:
    reports: list[tuple[float, float | None, str | None]] = []
    call = Call.for_test(reports=reports)
    await call.report_progress(1)
    await call.report_progress(2, 2, "there")
    assert reports == [(1, None, None), (2, 2, "there")]


async def test_on_undo_returns_only_when_the_undo_is_stored() -> None:
    stored: list[str] = []

    async def store(function: Callable[..., object], arguments: Mapping[str, object], /) -> None:
        stored.append(f"{function.__name__} {dict(arguments)}")

    await Call(key="k", saga_id="sg-1", step=1, store_undo=store).on_undo(release, ip="a")
    assert stored == ["release {'ip': 'a'}"]


def test_a_call_and_an_undo_cannot_be_changed() -> None:
    for context in (Call.for_test(), Undo[str].for_test()):
        with pytest.raises(AttributeError):
            context.key = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # the point


def test_an_undo_holds_what_its_test_gives_it() -> None:
    undo = Undo[str].for_test(args={"customer": "ada"}, result="c1", cause="operator", results={"book": 1})
    assert (undo.args, undo.result, undo.cause) == ({"customer": "ada"}, "c1", "operator")
    assert (undo.results, undo.deps) == ({"book": 1}, None)
    assert Undo[str].for_test().result is None


def test_the_keys_of_a_test_have_the_shape_of_real_ones() -> None:
    """S6.3: the first generation of a part's key is 0."""
    assert Undo[None].for_test().key == undo_key(Call.for_test().key, "1", 0)


def test_an_undo_is_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Undo[str].for_test())


def test_what_a_tool_raises_carries_its_message_and_urgency() -> None:
    asked = NeedsPerson("already delivered", urgency="high")
    assert (str(asked), asked.message, asked.urgency) == ("already delivered", "already delivered", "high")
    assert NeedsPerson("x").urgency == "normal"
    assert all(issubclass(raised, SagaToolsError) for raised in (NoEffect, NeedsPerson, CannotUndo))
