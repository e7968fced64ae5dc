"""What waits for a person, the reported state, and the line that sums a saga up (SEMANTICS.md S2.2, S2.3, S14.3).

All of it is computed from the fold, never stored as a state of its own, so that nothing can be reported as clean that
is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from saga_mcp.domain.duties import busy
from saga_mcp.domain.hosts import host_name
from saga_mcp.domain.on_saga import revertible
from saga_mcp.domain.rollback import in_scope, step_item
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import ItemKind, Kind, PartAction, PartState, Phase, StepState, Urgency

NEEDS_ATTENTION = "needs_attention"
QUARANTINED = "quarantined"
"""In place of the state of a saga that cannot be read: nobody can tell it from its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that waits for a person, named `<saga>.<step>`; step 0 is the saga itself."""

    saga_id: str
    step: int
    kind: ItemKind
    tool: str = ""
    urgency: Urgency = Urgency.NORMAL
    message: str = ""
    has_probe: bool = False
    """Its tool can be asked what happened."""
    has_undo: bool = True
    """Its tool can be undone."""

    @property
    def name(self) -> str:
        """How people name it on the command line."""
        return f"{self.saga_id}.{self.step}"


VERBS: dict[ItemKind, tuple[str, ...]] = {
    ItemKind.IN_DOUBT: ("probe", "resolve --landed", "resolve --absent", "exempt"),
    ItemKind.UNDO_IN_DOUBT: ("probe", "resolve --undone", "retry", "exempt"),
    ItemKind.DEAD_LETTER: ("retry", "resolve --undone", "exempt"),
    ItemKind.TARGET_CHANGED: ("retry", "resolve --undone", "exempt"),
    ItemKind.NEEDS_HOST: ("resolve --undone", "resolve --landed", "exempt"),
    ItemKind.MANUAL_UNDO: ("resolve --undone", "exempt"),
    ItemKind.CANNOT_BUILD: ("resolve --landed --result", "resolve --undone", "exempt"),
    ItemKind.GUARD_CONFLICT: ("retry", "resolve --overwrite", "resolve --keep"),
    ItemKind.RETRIABLE_EXHAUSTED: ("retry", "resolve --landed", "exempt"),
    ItemKind.LATE_EFFECT: ("resolve --undone", "exempt"),
    ItemKind.INVARIANT: ("exempt",),
    ItemKind.APPROVAL: ("approve", "reject"),
    ItemKind.IDLE: ("commit", "abort"),
    ItemKind.QUARANTINE: ("retry", "export"),
    ItemKind.OUTBOX_PARKED: ("retry", "export"),
}
"""What a person can do about each kind of item (S14.3)."""


def fits(kind: ItemKind, verb: str, *, has_undo: bool) -> bool:
    """Whether a person can do this about an item; what waits for its machine is a call to repeat, or an undo."""
    if kind is ItemKind.NEEDS_HOST and verb == ("resolve --landed" if has_undo else "resolve --undone"):
        return False
    return verb in VERBS[kind]


_SILENT = frozenset({ItemKind.APPROVAL, ItemKind.IDLE, ItemKind.INVARIANT})
"""Items that do not change the reported state (S14.2)."""
NOT_ABOUT_WORK: Final = frozenset({ItemKind.IDLE, ItemKind.OUTBOX_PARKED})
"""Items of a saga at which nobody works, and about whose work nobody is asked."""
_PARKED: Final = "its alerts were not acknowledged, and are kept back"


def items(saga: Saga) -> tuple[Item, ...]:
    """Everything of this saga that waits for a person, by step number; the saga's own first."""
    found: list[Item] = []
    if saga.idle and saga.phase is Phase.ACTIVE:
        found.append(Item(saga_id=saga.id, step=0, kind=ItemKind.IDLE))
    elif saga.violations:
        names = ", ".join(saga.violations)
        found.append(
            Item(saga_id=saga.id, step=0, kind=ItemKind.INVARIANT, message=f"violated after the pivot: {names}")
        )
    elif saga.alerts_parked:
        found.append(Item(saga_id=saga.id, step=0, kind=ItemKind.OUTBOX_PARKED, message=_PARKED))
    for step in saga.loose_steps:
        kind = step_item(saga, step)
        if kind is not None:
            found.append(_item(saga, step, kind))
    return tuple(found)


def idles(saga: Saga) -> bool:
    """Whether it is open and nobody does anything: nothing runs or is due, and no person is asked anything (S9.4)."""
    if saga.phase is not Phase.ACTIVE or busy(saga):
        return False
    return all(item.kind in NOT_ABOUT_WORK for item in items(saga))


def _item(saga: Saga, step: Step, kind: ItemKind) -> Item:
    part = step.next_part
    held = part is not None and kind in {
        ItemKind.DEAD_LETTER,
        ItemKind.TARGET_CHANGED,
        ItemKind.MANUAL_UNDO,
        ItemKind.GUARD_CONFLICT,
        ItemKind.UNDO_IN_DOUBT,
    }
    message = part.error if held and part is not None else step.build_error or step.error
    if step.host_awaited:
        message = f"needs host {host_name(step.plan.host)}"
    return Item(
        saga_id=saga.id,
        step=step.number,
        kind=kind,
        tool=step.tool,
        urgency=part.urgency if held and part is not None else Urgency.NORMAL,
        has_probe=(kind is ItemKind.IN_DOUBT and step.plan.has_probe)
        or (kind is ItemKind.UNDO_IN_DOUBT and part is not None and part.spec.has_probe),
        message=message,
        has_undo=step.kind is Kind.COMPENSABLE,
    )


def reported_state(saga: Saga) -> str:
    """The phase, or `needs_attention` where nothing runs or is due that could settle an effect (S2.2)."""
    return state_with(saga, items(saga))


def state_with(saga: Saga, waiting: tuple[Item, ...]) -> str:
    """The same, where what waits for a person is known already."""
    return NEEDS_ATTENTION if any(_alarms(saga, item) for item in waiting) else saga.phase.value


def _alarms(saga: Saga, item: Item) -> bool:
    if item.kind in _SILENT or item.step == 0:
        return False
    if item.kind in {ItemKind.IN_DOUBT, ItemKind.NEEDS_HOST, ItemKind.RETRIABLE_EXHAUSTED, ItemKind.LATE_EFFECT}:
        return True
    # An undo that cannot be built harms nobody until the step is to be undone.
    return saga.phase is Phase.COMPENSATING and in_scope(saga, saga.step(item.step))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of a saga's steps, counted."""

    done: int = 0
    no_effect: int = 0
    undone: int = 0
    by_person: int = 0
    residue: int = 0
    exempt: int = 0
    exempt_by: tuple[str, ...] = ()
    running: int = 0
    open: int = 0
    """Steps whose effect may stand although it should not, or whose outcome is not known."""


def tally(saga: Saga) -> Tally:
    """Count the steps by what became of them."""
    done = no_effect = undone = by_person = residue = running = opened = exempt = 0
    names: list[str] = []
    for step in saga.steps:
        if step.late:
            opened += 1
        elif step.state is StepState.EXEMPT:
            exempt += 1
            if step.person not in names:
                names.append(step.person)
        elif step.state in {StepState.FAILED, StepState.CANCELLED}:
            no_effect += 1
        elif step.state is StepState.COMPENSATED:
            if step.person:
                by_person += 1
            elif is_residue(step):
                residue += 1
            else:
                undone += 1
        elif step.running:
            running += 1
        elif step.state is StepState.SUCCEEDED and not (saga.phase is Phase.COMPENSATING and in_scope(saga, step)):
            done += 1
        elif step.state is not StepState.AWAITING_APPROVAL:
            opened += 1
    return Tally(
        done=done,
        no_effect=no_effect,
        undone=undone,
        by_person=by_person,
        residue=residue,
        exempt=exempt,
        exempt_by=tuple(names),
        running=running,
        open=opened,
    )


def is_residue(step: Step) -> bool:
    """Whether something of a compensated step stays in the world because the config says so."""
    return any(
        part.spec.action is PartAction.LEAVE and part.state is PartState.DONE and not (part.tries or part.unneeded)
        for part in step.parts or ()
    )


def summary(saga: Saga) -> str:
    """The one line that sums a saga up, everywhere (S2.3), e.g. `compensated: 3 undone, 1 exempt (ada), 0 open`."""
    return f"{reported_state(saga)}: {counts(saga, tally(saga))}"


def counts(saga: Saga, count: Tally) -> str:
    """The part of that line that counts."""
    parts = [f"{count.done} done"] if count.done or saga.phase in {Phase.ACTIVE, Phase.COMMITTED} else []
    if count.undone or saga.phase in {Phase.COMPENSATING, Phase.COMPENSATED}:
        parts.append(f"{count.undone} undone")
    parts += [
        f"{number} {label}"
        for number, label in (
            (count.no_effect, "without effect"),
            (count.by_person, "by a person"),
            (count.residue, "residue"),
            (count.exempt, f"exempt ({', '.join(count.exempt_by)})"),
            (count.running, "running"),
        )
        if number
    ]
    reverted = reverted_words(saga)
    return ", ".join([*parts, f"{count.open} open"]) + (f"; {reverted}" if reverted else "")


def reverted_words(saga: Saga) -> str:
    """E.g. `reverted by sg-...`, with the steps where that saga undoes some of them only; empty: nobody does."""
    whole_saga = len(saga.reverted) == 1 and not any(revertible(saga, step) for step in saga.steps)
    each = (
        other.revert if whole_saga else f"{other.revert} (step {', '.join(map(str, other.steps))})"
        for other in saga.reverted
    )
    return f"reverted by {', '.join(each)}" if saga.reverted else ""
