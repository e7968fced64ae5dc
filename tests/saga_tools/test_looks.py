"""Captures and guards of a pair: what is wrong with one, and how its undo gets what was captured."""

from typing import Any, Literal

import pytest

from saga_tools import Call, ToolRegistry, Undo
from saga_tools.server import registered


def write(name: str, text: str) -> None: ...


def restore(name: str) -> None: ...


def look_before(name: str) -> str:
    return name


LOOK_BEFORE = look_before


def look_again(name: str) -> Literal["as_left", "as_before", "changed"]:
    return "as_left" if name else "changed"


def pair(**traits: Any) -> ToolRegistry:  # noqa: ANN401 - traits as an author types them
    registry = ToolRegistry()
    registry.tool(**traits)(write)
    registry.undoes(write)(restore)
    return registry


def only_problem(registry: ToolRegistry) -> str:
    (problem,) = registry.check()
    return str(problem)


def test_what_belongs_to_a_tool_is_found_with_it() -> None:
    registry = pair()

    @registry.captures(write)
    async def content(name: str, call: Call) -> bytes | None:
        return None if call.saga_id else name.encode()

    @registry.guards(write)
    def look(text: str, undo: Undo[None]) -> Literal["as_left", "as_before", "changed"]:
        return "as_left" if text == undo.capture else "changed"

    tool = registered(registry).tools["write"]
    assert tool.capture is not None
    assert tool.guard is not None
    assert (tool.capture.name, tool.capture.is_async, tool.capture.call_parameter) == ("content", True, "call")
    assert (tool.guard.name, tool.guard.arguments.names, tool.guard.undo_parameter) == ("look", ("text",), "undo")


def test_unchanged_needs_a_capture() -> None:
    assert "nothing is captured that could be unchanged; add `@registry.captures(write)`" in only_problem(
        pair(guard="unchanged")
    )


def test_a_guard_is_of_one_kind() -> None:
    assert """guard is 'same'; use "unchanged", or `@registry.guards`""" in only_problem(pair(guard="same"))
    registry = pair(guard="unchanged")
    registry.captures(write)(look_before)
    registry.guards(write)(look_again)
    assert "it has two guards" in only_problem(registry)


@pytest.mark.parametrize("role", ["captures", "guards"])
def test_a_parameter_that_the_forward_action_has_not_is_named(role: str) -> None:
    registry = pair()

    def look(nam: str) -> Any:  # noqa: ANN401 - whatever the role returns
        return nam

    getattr(registry, role)(write)(look)
    assert "`look` has a parameter `nam` that `write` has not, did you mean `name`?" in only_problem(registry)


def test_a_capture_runs_before_any_undo_and_a_guard_after_its_call() -> None:
    early, late = pair(), pair()

    def content(undo: Undo[None]) -> str:
        return undo.key

    def look(call: Call) -> Literal["as_left", "as_before", "changed"]:
        return "as_left" if call.key else "changed"

    early.captures(write)(content)
    late.guards(write)(look)
    assert "capture `content` takes an Undo, but none is running then; take a `Call`" in only_problem(early)
    assert "guard `look` takes a Call, but it runs when the call is over; take an `Undo`" in only_problem(late)


def test_names_under_which_captures_and_guards_are_stored_are_unique() -> None:
    registry = pair()

    def put(name: str) -> None: ...

    def take(name: str) -> None: ...

    def look_before(name: str) -> int:
        return len(name)

    registry.tool(put)
    registry.undoes(put)(take)
    registry.captures(write)(LOOK_BEFORE)
    registry.captures(put)(look_before)
    assert "two captures or guards have this name" in only_problem(registry)


def test_only_what_is_undone_is_captured() -> None:
    registry = ToolRegistry()
    registry.tool(kind="pivot")(write)
    registry.captures(write)(look_before)
    assert "a pivot tool has no capture" in only_problem(registry)


def test_an_undo_in_a_unit_test_can_be_given_a_capture() -> None:
    assert Undo[None].for_test(capture=b"old").capture == b"old"


def test_the_order_that_is_ignored_is_of_a_guard() -> None:
    assert 'ignore_order is of a guard that it does not have; say guard="unchanged"' in only_problem(
        pair(ignore_order=True)
    )
