"""Tools that a person has paused: what an append is about to call, and which undo waits for one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from saga_mcp.domain.duties import RunUndo, duties
from saga_mcp.domain.events import Event, StepAttempted, StepIntended, UndoIntended
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.undo_parts import part_of
from saga_mcp.domain.values import PartAction, Phase, StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Nothing calls a tool until a person lets it go on: agents are refused, undos wait without using up attempts."""

    tool: str
    """By its name in the config."""
    by: str
    note: str = ""
    at: float = 0.0
    """Wall clock, in seconds since the epoch; for people only."""


def called_by(saga: Saga, events: Iterable[Event]) -> Iterator[str]:
    """Return the tools that are called once `events` are stored; `saga` is the state after them."""
    for event in events:
        match event:
            case StepIntended(plan=plan):
                yield plan.tool
            case StepAttempted(step=number):
                yield saga.step(number).tool
            case UndoIntended(step=number, part=name):
                part = part_of(saga.step(number), name)
                if part is not None:
                    yield part.spec.tool
            case _:
                pass


def held_undo(saga: Saga, paused: Mapping[str, Pause]) -> tuple[Step, Pause] | None:
    """Return the undo whose turn it is, where it waits for a paused tool."""
    if not paused:
        return None
    for duty in duties(saga):
        if isinstance(duty, RunUndo) and duty.part.spec.action is PartAction.CALL:
            pause = paused.get(duty.part.spec.tool)
            return None if pause is None else (duty.step, pause)
    return None


def held_call(saga: Saga, paused: Mapping[str, Pause]) -> tuple[Step, Pause] | None:
    """Return the first call that a person has allowed and that waits for a paused tool."""
    if not paused or saga.phase is not Phase.ACTIVE:
        return None
    waiting = (step for step in saga.loose_steps if is_allowed(step) and step.tool in paused)
    return next(((step, paused[step.tool]) for step in waiting), None)


def is_allowed(step: Step) -> bool:
    """Whether a person has allowed the call, and it was not sent yet."""
    return step.state is StepState.AWAITING_APPROVAL and step.approved
