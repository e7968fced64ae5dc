"""A guard without a capture locks what it will look at, for as long as its step runs (SEMANTICS.md S5.3)."""

from __future__ import annotations

import pytest

from saga_mcp.domain.events import StepPlan
from saga_mcp.domain.values import Kind
from saga_mcp.tools.looks import lock_name
from saga_mcp.tools.pair import Capture, Guard, Pair, ReadCall

CALL = ReadCall(tool="desk.number_of", args={"name": "${args.name}"})
OTHER = ReadCall(tool="desk.number_of", args={"name": "${result.name}"})


def name_of(pair: Pair, *, resource: str = "", **args: str) -> str:
    plan = StepPlan(tool=pair.tool, kind=pair.kind, args={**args}, resource=resource)
    return lock_name(pair, plan, "sg-1")


def pair(guard: Guard | None = None, capture: Capture | None = None) -> Pair:
    return Pair(tool="desk.number", kind=Kind.COMPENSABLE, guard=guard, capture=capture)


def test_a_guard_locks_what_it_looks_at() -> None:
    guarded, captured = pair(Guard(call=CALL)), pair(capture=Capture(call=CALL))
    assert name_of(guarded, name="a") == name_of(captured, name="a") != ""
    assert name_of(guarded, name="a") != name_of(guarded, name="b")


@pytest.mark.parametrize("free", [pair(Guard(call=OTHER)), pair()], ids=["only-the-result-tells", "no-guard"])
def test_what_nobody_else_can_know_yet_needs_no_lock(free: Pair) -> None:
    assert name_of(free, name="a") == ""


def test_a_resource_goes_before_both() -> None:
    named = {name_of(each, resource="r", name="a") for each in (pair(Guard(call=CALL)), pair(Guard(call=OTHER)))}
    assert len(named) == 1
    assert "" not in named
