"""From a pair's undo entries to parts, by themselves: what is not known stops only who needs it (S6.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saga_mcp.domain.values import JsonObject, Kind
from saga_mcp.tools.pair import Capture, Pair, ReadCall, UndoEntry
from saga_mcp.tools.port import StepFacts
from saga_mcp.tools.undo_plan import UndoPlan

STEP = StepFacts(saga_id="sg-1", tool="x.put", number=1, key="k", args={"n": 2}, result={"id": 7}, known=True)


def plan(*entries: UndoEntry) -> UndoPlan:
    after = Capture(call=ReadCall(tool="x.get"))
    return UndoPlan.of(Pair(tool="x.put", kind=Kind.COMPENSABLE, after=after, undo=entries))


def test_what_was_not_read_after_the_step_stops_no_undo_that_needs_another_entry() -> None:
    old = UndoEntry(tool="x.a", when="${args.n == 1}", args={"v": "${after.text}"})
    new = UndoEntry(tool="x.b", when="${args.n != 1}", args={"v": "${args.n}"})
    bound = plan(old, new).bind(STEP)
    assert [(part.tool, part.args) for part in bound.parts or ()] == [("x.b", {"v": 2})], bound.build_error


@pytest.mark.parametrize("entry", [{"when": "${after.found}"}, {"args": {"v": "${after.text}"}}])
def test_what_was_not_read_after_the_step_stops_the_undo_that_needs_it(entry: JsonObject) -> None:
    bound = plan(UndoEntry(tool="x.a", **entry)).bind(STEP)  # type: ignore[arg-type] # the keys vary
    assert bound.parts is None
    assert bound.build_error.endswith("needs what was read after the step, which is not known")


@pytest.mark.parametrize(
    "entry", [{"when": "${text == ''}"}, {"args": {"v": "${text}"}}, {"args": {"v": "say ${text}"}}]
)
def test_what_the_call_answered_is_not_empty_where_nobody_knows_it(entry: JsonObject) -> None:
    built = plan(UndoEntry(tool="x.a", **entry))  # type: ignore[arg-type] # the keys vary
    bound = built.bind(STEP)
    assert bound.parts is None
    assert bound.build_error.endswith("needs what the call answered, which is not known")
    assert built.bind(replace(STEP, text="")).parts is not None
