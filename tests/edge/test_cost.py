"""What a reply costs: a saga may have thousands of steps, and most replies are about one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import overload

import pytest
from mcp.client import Client
from tests.edge.scripted import (
    STUCK,
    UNDOING,
    UNDONE,
    Script,
    call,
    done,
    intended,
    saga_of,
    says,
    scripted,
    succeeded,
    told_tool,
)
from tests.edge.served import facts_of, text_of

from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.vector import Vector

MANY = 30


class Watched(Vector[Step]):
    """Steps that count how often somebody goes through them, in whatever manner, and how often somebody asks for one.

    Whoever asks for each by its number goes through them as well.
    """

    walks = 0
    looks = 0

    def __iter__(self) -> Iterator[Step]:
        type(self).walks += 1
        return super().__iter__()

    def __reversed__(self) -> Iterator[Step]:
        type(self).walks += 1
        return super().__reversed__()

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        if isinstance(index, slice):
            type(self).walks += 1
        else:
            type(self).looks += 1
        return super().__getitem__(index)


def watched(saga: Saga) -> tuple[Saga, Watched]:
    Watched.walks = Watched.looks = 0
    steps = Watched(saga.steps.chunks, len(saga.steps))
    return replace(saga, steps=steps), steps


OPEN = saga_of(*(event for number in range(1, MANY + 1) for event in (intended(number), succeeded(number))))


async def test_a_reply_about_an_open_saga_looks_at_no_step_but_its_own() -> None:
    saga, steps = watched(OPEN)
    async with Client(scripted(Script(done(says("ok"), saga, MANY)), told_tool()), mode="legacy") as client:
        first, second = [await client.call_tool("act", {}) for _ in range(2)]
    assert text_of(first).startswith(f"[saga {OPEN.id}: step {MANY} done, undo ready. Finish:")
    assert text_of(second) == f"[saga {OPEN.id} open, {MANY} steps]"
    assert [(facts_of(reply)["steps"], "summary" in facts_of(reply)) for reply in (first, second)] == [
        (MANY, False)
    ] * 2
    assert (steps.walks, steps.looks) == (0, 2)  # once for each reply


@pytest.mark.parametrize(("saga", "step"), [(UNDONE, 2), (UNDOING, 3), (STUCK, 2)])
async def test_a_reply_that_counts_the_steps_goes_through_them_once(saga: Saga, step: int) -> None:
    saga, steps = watched(saga)
    result = await call(Script(done(says("no"), saga, step)))
    assert facts_of(result)["summary"]
    assert steps.walks == 1
    assert steps.looks <= 3  # at its own, and at what waits for a person


async def test_a_status_goes_through_the_steps_once_to_count_to_list_to_plan_their_undo_and_to_see_what_is_held() -> (
    None
):
    saga, steps = watched(OPEN)
    async with Client(scripted(Script(state=saga)), mode="legacy") as client:
        view = (await client.call_tool("saga_status", {"saga_id": OPEN.id})).structured_content
    assert view["summary"] == f"active: {MANY} done, 0 open"
    assert (steps.walks, steps.looks) == (3, MANY)  # the plan is made in the order of the undo, by number
