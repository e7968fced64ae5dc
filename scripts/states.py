"""Write `docs/states.md`, which event is legal in which state, from a walk over the machine itself.

python scripts/states.py            writes the page
python scripts/states.py --check    says whether the page is what the code does
"""
# ruff: noqa: INP001 - scripts are no package

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the walk lives with the tests

from tests.domain import alphabet as a  # noqa: E402 - see above
from tests.domain.walk import Edge, explore  # noqa: E402 - see above

from saga_mcp.domain import events as e  # noqa: E402 - see above
from saga_mcp.domain.state import Saga  # noqa: E402 - see above
from saga_mcp.domain.undo_parts import part_of  # noqa: E402 - see above
from saga_mcp.domain.values import ItemKind, OnError, PartState, Phase, StepState  # noqa: E402 - see above

TARGET = ROOT / "docs" / "states.md"
WALKS = (
    a.Alphabet(name="one step", steps=1, plans=(a.PYTHON,), bindings=((a.ONCE,), None), rare=True),
    a.Alphabet(name="registered", steps=1, plans=(a.PYTHON,), bindings=((),), registered=True),
    a.Alphabet(
        name="marks",
        steps=1,
        plans=(a.PLAIN,),
        bindings=((a.LEAVE,),),
        savepoints=True,
        approvals=True,
        on_error=OnError.HOLD,
    ),
    a.Alphabet(
        name="probes",
        steps=1,
        plans=(a.PROBABLE,),
        bindings=((a.PROBED,),),
        parked=(ItemKind.UNDO_IN_DOUBT, ItemKind.CANNOT_BUILD),
    ),
    a.Alphabet(
        name="guard", steps=1, plans=(a.GUARDED,), bindings=((a.CALL,), None), parked=(ItemKind.GUARD_CONFLICT,)
    ),
    a.Alphabet(name="machine", steps=1, plans=(a.HOSTED,), bindings=((a.CALL,),), hosts=True),
    a.Alphabet(name="two parts", steps=1, plans=(a.PYTHON,), bindings=((a.CALL, a.LEAVE),)),
    a.Alphabet(name="revert", steps=1, plans=(a.PLAIN,), bindings=((a.ONCE,),), reverts=True),
    a.Alphabet(name="pivot", steps=2, plans=(a.PIVOT, a.AGAIN), bindings=((),)),
)
_NEW = "(none)"
_HEAD = """# States and events

This page is made by `scripts/states.py` from a walk over the machine in `saga_mcp.domain`: every order of events is
tried, and a cell names each state that was seen to follow. An empty cell: the event is illegal there, in every case
that was met. A filled one: it is legal in some, and the rules in the code say in which. The words are those of the
glossary.

A row is an event, a column the state it meets.
"""
_SAGA = """## Phases of a saga

`needs_attention` is no phase: it is computed from what waits for a person. An event that leaves the phase as it is in
every case is not listed here.
"""
_STEP = """## States of a step

Its forward action, what settles a doubt about it, and what its undo does to it. `running` is a flag beside the state.
"""
_PART = """## States of an undo part

A step's undo has one or more parts, each with its own intent and outcome.
"""

Cells = dict[tuple[str, str], set[str]]


def page() -> str:
    """Return the page."""
    phases: Cells = {}
    steps: Cells = {}
    parts: Cells = {}
    for walk in WALKS:
        for edge in explore(walk):
            name = type(edge.event).__name__
            _note(phases, _phase(edge.before), name, _phase(edge.after))
            _note_step(steps, parts, edge, name)
    moving = {event for (before, event), after in phases.items() if after != {before}}
    phases = {cell: after for cell, after in phases.items() if cell[1] in moving}
    return "\n".join(
        [
            _HEAD,
            _SAGA,
            *_table(phases, [_NEW, *Phase]),
            _STEP,
            *_table(steps, [_NEW, *StepState]),
            _PART,
            *_table(parts, [*PartState]),
        ]
    )


def _note_step(steps: Cells, parts: Cells, edge: Edge, name: str) -> None:
    number = getattr(edge.event, "step", 0)
    if not number or isinstance(edge.event, e.InvariantViolated):
        return
    before, after = edge.before.find_step(number), edge.after.find_step(number)
    _note(steps, _NEW if before is None else before.state, name, _NEW if after is None else after.state)
    if before is None or after is None:
        return
    part_id = getattr(edge.event, "part", None)
    if isinstance(edge.event, e.UndoResumed | e.UndoResolved) and before.next_part is not None:
        part_id = before.next_part.id
    if not isinstance(part_id, str):
        return
    one, other = part_of(before, part_id), part_of(after, part_id)
    if one is not None and other is not None:
        _note(parts, one.state, name, other.state)


def _phase(saga: Saga) -> str:
    return saga.phase if saga.opened else _NEW


def _note(cells: Cells, before: str, event: str, after: str) -> None:
    cells.setdefault((before, event), set()).add(after)


def _table(cells: Cells, states: Iterable[str]) -> list[str]:
    order = [str(state) for state in states]
    kinds = [cls.__name__ for cls in (*e.SagaEvent.__args__, *e.StepEvent.__args__, *e.UndoEvent.__args__)]
    shown = [event for event in kinds if any(cell[1] == event for cell in cells)]
    rows = [f"| event | {' | '.join(order)} |", f"|---|{'---|' * len(order)}"]
    for event in shown:
        filled = (" ".join(sorted(cells.get((state, event), ()), key=order.index)) for state in order)
        rows.append(f"| `{event}` | {' | '.join(filled)} |")
    return [*rows, ""]


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write("docs/states.md is not what the code does: run python scripts/states.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
