"""Binding a step's undo parts, and moving one of them (SEMANTICS.md S6.2)."""

from __future__ import annotations

from saga_mcp.domain.copying import replace
from saga_mcp.domain.events import PartSpec
from saga_mcp.domain.state import Part, Step
from saga_mcp.domain.values import ItemKind, PartAction, PartState


def bind(step: Step, main: tuple[PartSpec, ...] | None, build_error: str) -> Step:
    """Give `step` its undo: the pair's parts in written order, then what the call registered, newest first."""
    error = "" if main is not None else build_error
    return replace(step, main=main, parts=bound(main, step.registered), build_error=error)


def bound(main: tuple[PartSpec, ...] | None, registered: tuple[PartSpec, ...]) -> tuple[Part, ...] | None:
    """The undo in the order in which it runs; None: its main part could not be built."""
    if main is None:
        return None
    parts = tuple([Part(id=str(number), spec=spec) for number, spec in enumerate(main, 1)])
    if not registered:
        return parts
    return (*parts, *reversed([Part(id=f"r{number}", spec=spec) for number, spec in enumerate(registered, 1)]))


def part_of(step: Step, part_id: str) -> Part | None:
    """The undo part of that id, or None."""
    return next((part for part in step.parts or () if part.id == part_id), None)


def with_part(step: Step, part: Part) -> tuple[Part, ...]:
    """The step's parts with the one of that id replaced."""
    return tuple([part if other.id == part.id else other for other in step.parts or ()])


def next_generation(step: Step) -> Step:
    """Give `step` its undo once more, under new keys and as bound last (S5.5, S6.3).

    A part that was sent and is not idempotent is held for a person: twice may be too often.
    """
    old = {part.id: part for part in step.parts or ()}
    again = bind(step, step.main, step.build_error)
    parts = tuple(_again(part, old.get(part.id)) for part in again.parts or ())
    return replace(again, redo=False, parts=None if again.parts is None else parts)


def _again(part: Part, old: Part | None) -> Part:
    if old is None:
        return part
    part = replace(part, generation=old.generation + 1)
    if part.spec.idempotent or part.spec.action is not PartAction.CALL or not old.tries:
        return part
    error = "the effect landed after its undo was sent, and this undo is not declared idempotent"
    return replace(part, state=PartState.WAITING, item=ItemKind.DEAD_LETTER, error=error)


def rebuild(step: Step, main: tuple[PartSpec, ...], build_error: str) -> Step:
    """Bind the undo anew where it could not be built; what is done of it stays done."""
    old = {part.id: part for part in step.parts or ()}
    again = bind(step, main, build_error)
    return replace(again, parts=tuple(_rebuilt(part, old.get(part.id)) for part in again.parts or ()))


def _rebuilt(part: Part, old: Part | None) -> Part:
    if old is None or old.state is PartState.DONE:
        return old or part
    return replace(part, generation=old.generation, tries=old.tries)
