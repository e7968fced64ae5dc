"""What waits for a person in a realm, with what a person needs to choose: since when, how urgent, what it holds up.

Reads the log only. More than the domain's own list of items, because ages and quarantined sagas are in no fold.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

from saga_mcp.domain.attention import QUARANTINED, VERBS, Item, fits, items, reported_state
from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.events import Event, StepAdopted, StepPlan, UndoRegistered
from saga_mcp.domain.hiding import Hiding, hidden, secrets_of, secrets_of_parts
from saga_mcp.domain.rollback import in_scope
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, JsonValue, OnUndoFailure, Phase, Urgency
from saga_mcp.edge.outages import Held, held
from saga_mcp.log.port import Record, SagaLog, SagaRow

OFFERED = frozenset(
    {
        "probe",
        "retry",
        "resolve --landed",
        "resolve --landed --result",
        "resolve --absent",
        "resolve --undone",
        "resolve --overwrite",
        "resolve --keep",
        "exempt",
        "approve",
        "reject",
        "commit",
        "abort",
    }
)
"""Verbs that this command has."""

_PAGE = 1000
_BY_URGENCY = {Urgency.HIGH: 0, Urgency.NORMAL: 1, Urgency.LOW: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One attention item as a person meets it."""

    item: Item
    saga: Saga | None
    """None: its events cannot be read."""
    purpose: str
    since: float
    """Wall clock of the last event that concerns it, in seconds since the epoch."""
    blocks: int
    """Steps of the same saga that are undone only after it."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """What a person can do about it with this command."""
        return verbs(self.item)


def verbs(item: Item) -> tuple[str, ...]:
    """What a person can do about the item with this command."""
    if item.kind is ItemKind.QUARANTINE:
        return ()
    fitting = (verb for verb in VERBS[item.kind] if fits(item.kind, verb, has_undo=item.has_undo))
    return tuple(verb for verb in fitting if verb in OFFERED and (verb != "probe" or item.has_probe))


def item_at(saga: Saga, step: int) -> Item | None:
    """What waits for a person at a step; 0: at the saga itself."""
    return next((item for item in items(saga) if item.step == step), None)


async def _as_it_is(log: SagaLog, row: SagaRow) -> SagaRow:
    """What could not be read once may be readable by now: by a newer version, or from a backup."""
    if row.state != QUARANTINED:
        return row
    try:
        saga = hidden(await log.load(row.id))
    except SagaQuarantined:
        return row
    return replace(row, state=reported_state(saga), items=len(items(saga)))


async def rows(log: SagaLog, realm: str, *, open_only: bool = False, attention_only: bool = False) -> list[SagaRow]:
    """Every saga of the realm, newest first."""
    found: list[SagaRow] = []
    while True:
        page = await log.sagas(
            realm, open_only=open_only, attention_only=attention_only, limit=_PAGE, offset=len(found)
        )
        found.extend([await _as_it_is(log, row) for row in page])
        if len(page) < _PAGE:
            return found


class HidingRecords:
    """Hides the secrets of a saga in its events, which come in order: a call's before everything that came of it."""

    def __init__(self) -> None:
        self._secrets: tuple[JsonValue, ...] = ()
        self._hiding = Hiding()

    def of(self, record: Record) -> Record:
        """Return an event as it may be shown."""
        if found := _secrets_in(record.event):
            self._secrets += found
            self._hiding = Hiding(self._secrets)
        return replace(record, event=self._hiding.of(record.event))


def _secrets_in(event: Event) -> tuple[JsonValue, ...]:
    plan = getattr(event, "plan", None)
    called = secrets_of(plan) if isinstance(plan, StepPlan) else ()
    match event:
        case StepAdopted():
            return (*called, *secrets_of_parts(event.registered))
        case UndoRegistered():
            return secrets_of_parts([event.part])
        case _:
            return called


async def history(log: SagaLog, saga_id: str) -> AsyncIterator[Record]:
    """Every event of a saga, in order, as it may be shown."""
    seq, hiding = 0, HidingRecords()
    while page := await log.history(saga_id, after_seq=seq, limit=_PAGE):
        for record in page:
            yield hiding.of(record)
        seq = page[-1].seq


async def readable_history(log: SagaLog, saga_id: str) -> AsyncIterator[Record]:
    """The events of a saga up to the first that this version cannot read."""
    seq, hiding = 0, HidingRecords()
    with contextlib.suppress(SagaQuarantined):
        while found := await log.history(saga_id, after_seq=seq, limit=1):
            yield hiding.of(found[0])
            seq = found[0].seq


async def waiting(log: SagaLog, realm: str) -> list[Waiting]:
    """Everything of the realm that waits for a person: the urgent first, then the oldest."""
    found: list[Waiting] = []
    for row in await rows(log, realm, attention_only=True):
        found.extend(await of_saga(log, row))
    return sorted(found, key=lambda each: (_BY_URGENCY[each.item.urgency], each.since, each.item.name))


async def of_saga(log: SagaLog, row: SagaRow) -> list[Waiting]:
    """What waits for a person in one saga."""
    try:
        saga = hidden(await log.load(row.id))
        since: dict[int, float] = {}
        async for record in history(log, row.id):
            since[getattr(record.event, "step", 0)] = record.at
    except SagaQuarantined as error:
        item = Item(saga_id=row.id, step=0, kind=ItemKind.QUARANTINE, urgency=Urgency.HIGH, message=error.reason)
        return [Waiting(item=item, saga=None, purpose=row.purpose, since=row.updated_at, blocks=0)]
    return [
        Waiting(
            item=item,
            saga=saga,
            purpose=row.purpose,
            since=since.get(item.step, row.updated_at),
            blocks=len(behind(saga, item.step)),
        )
        for item in items(saga)
    ]


async def outages(log: SagaLog, found: Iterable[SagaRow]) -> list[Held]:
    """The undos of these sagas that wait for an upstream."""
    waits: list[Held] = []
    for row in found:
        if row.busy and row.phase == Phase.COMPENSATING.value:
            with contextlib.suppress(SagaQuarantined):
                waits.extend(held(hidden(await log.load(row.id))))
    return waits


async def held_up(log: SagaLog, row: SagaRow) -> int:
    """How many steps of a saga are undone only after a person has settled something (S5.4)."""
    if not row.items:
        return 0
    return max((each.blocks for each in await of_saga(log, row)), default=0)


def behind(saga: Saga, number: int) -> tuple[int, ...]:
    """The older steps that are undone only after step `number`, in that order (S5.4)."""
    step = saga.find_step(number)
    if step is None or saga.phase is not Phase.COMPENSATING or saga.on_undo_failure is not OnUndoFailure.HALT:
        return ()
    older = (saga.step(each) for each in reversed(saga.undo_stack))
    return tuple(
        other.number
        for other in older
        if other.number != number
        and (other.order < step.order or not step.order)
        and not other.settled
        and in_scope(saga, other)
    )
