"""Binding a step's undo parts, and moving one of them (SEMANTICS.md S6.2)."""

from __future__ import annotations

from dataclasses import replace

from saga_mcp.domain.events import PartSpec
from saga_mcp.domain.state import Part, Step
from saga_mcp.domain.values import ItemKind, PartAction, PartState


def bind(step: Step, main: tuple[PartSpec, ...] | None, build_error: str) -> Step:
    """Give `step` its undo: the pair's parts in written order, then what the call registered, newest first."""
    if main is None:
        return replace(step, main=None, parts=None, build_error=build_error)
    parts = tuple(Part(id=str(number), spec=spec) for number, spec in enumerate(main, 1))
    registered = tuple(Part(id=f"r{number}", spec=spec) for number, spec in enumerate(step.registered, 1))
    return replace(step, main=main, parts=(*parts, *reversed(registered)), build_error="")


def part_of(step: Step, part_id: str) -> Part | None:
    """The undo part of that id, or None."""
    return next((part for part in step.parts or () if part.id == part_id), None)


def with_part(step: Step, part: Part) -> Step:
    """Replace the part of that id."""
    return replace(step, parts=tuple(part if other.id == part.id else other for other in step.parts or ()))


def untouched(step: Step) -> bool:
    """Whether no undo of the step was ever sent or settled."""
    return all(
        part.state is PartState.PENDING and part.tries == 0 and part.generation == 0 for part in step.parts or ()
    )


def next_generation(step: Step) -> tuple[Part, ...] | None:
    """The undo once more, under new keys; held for a person where twice is not declared safe (S5.5, S6.3)."""
    if step.parts is None:
        return None
    safe = all(part.spec.idempotent or part.spec.action is not PartAction.CALL for part in step.parts)
    return tuple(
        Part(
            id=part.id,
            spec=part.spec,
            generation=part.generation + 1,
            state=PartState.PENDING if safe else PartState.WAITING,
            item=None if safe else ItemKind.DEAD_LETTER,
            error="" if safe else "the effect landed after its undo ran, and this undo is not declared idempotent",
        )
        for part in step.parts
    )
