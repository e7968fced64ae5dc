"""The clock that tests hold still rings as the machine's does."""

from __future__ import annotations

from functools import partial

from tests.world.clock import ManualClock


def test_of_several_that_are_due_the_first_one_rings_first_whoever_was_there_first() -> None:
    clock = ManualClock()
    rung: list[str] = []
    for seconds, name in ((3, "last"), (1, "first"), (2, "second, there earlier"), (2, "second, there later")):
        clock.after(seconds, partial(rung.append, name))
    clock.after(4, lambda: rung.append("not due"))
    clock.advance(3)
    assert rung == ["first", "second, there earlier", "second, there later", "last"]


def test_what_one_alarm_cancels_does_not_ring_in_the_same_moment() -> None:
    clock = ManualClock()
    rung: list[str] = []
    cancelled = clock.after(2, lambda: rung.append("cancelled"))
    clock.after(1, cancelled.cancel)
    clock.after(3, lambda: rung.append("kept"))
    clock.advance(3)
    assert rung == ["kept"]
