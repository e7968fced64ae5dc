"""What is to be told about a decision: items that open or close, and what becomes of the saga (SEMANTICS.md S10.6).

Attention items are computed from the fold and never stored, so what there is to tell is computed too, by comparing the
saga before and after a decision. Pure: the log writes it beside the events, and others send it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from saga_mcp.domain.attention import NEEDS_ATTENTION, Item, items, state_with
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, JsonObject, Phase


class AlertType(StrEnum):
    """What happened."""

    ITEM_OPENED = "item.opened"
    ITEM_CLOSED = "item.closed"
    NEEDS_ATTENTION = "saga.needs_attention"
    COMMITTED = "saga.committed"
    COMPENSATED = "saga.compensated"
    REVERTED = "saga.reverted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something to tell. Holds names and states, and no value of the outside world (S11.4)."""

    type: AlertType
    saga_id: str
    seq: int
    """Of the last event of the decision that made it."""
    n: int
    """Of the alerts of that decision, from 0."""
    state: str
    """Reported state of the saga then."""
    open_items: int
    """How many items of it waited for a person then."""
    item: Item | None = None
    reverted_by: str = ""
    """The saga that has begun to undo it after its commit."""
    reverts: str = ""
    """The saga that this one undoes (S13)."""

    @property
    def subject(self) -> str:
        """What it is about: the saga, or its item."""
        return self.saga_id if self.item is None else self.item.name

    @property
    def data(self) -> JsonObject:
        """What is told: ids, tool, state and code."""
        data: JsonObject = {"saga": self.saga_id, "state": self.state, "open_items": self.open_items}
        data |= {"reverted_by": self.reverted_by} if self.reverted_by else {}
        data |= {"reverts": self.reverts} if self.reverts else {}
        if self.item is not None:
            data |= {"item": self.item.name, "code": self.item.kind.value, "urgency": self.item.urgency.value}
            if self.item.step:
                data |= {"step": self.item.step, "tool": self.item.tool}
        return data


URGENT = frozenset({AlertType.ITEM_OPENED, AlertType.NEEDS_ATTENTION})
"""What a person should see soon."""
_ENDS = {Phase.COMMITTED: AlertType.COMMITTED, Phase.COMPENSATED: AlertType.COMPENSATED}


def alerts(before: Saga, after: Saga) -> tuple[Alert, ...]:
    """What there is to tell about a decision, in the order in which it is told.

    What opens and closes within one decision is nothing to tell; and that alerts are kept back does not alert.
    """
    if before is after:
        return ()
    were, are = items(before), items(after)
    state = state_with(after, are)
    told: list[tuple[AlertType, Item | None]] = []
    if were or are:
        old, new = _by_name(were), _by_name(are)
        told += [(AlertType.ITEM_CLOSED, item) for name, item in old.items() if name not in new]
        told += [(AlertType.ITEM_OPENED, item) for name, item in new.items() if name not in old]
        if state == NEEDS_ATTENTION and state_with(before, were) != NEEDS_ATTENTION:
            told.append((AlertType.NEEDS_ATTENTION, None))
    if after.phase is not before.phase and after.phase in _ENDS:
        told.append((_ENDS[after.phase], None))
    told += [(AlertType.REVERTED, None)] * (len(after.reverted) > len(before.reverted))
    return tuple(
        Alert(
            type=kind,
            saga_id=after.id,
            seq=after.seq,
            n=n,
            state=state,
            open_items=len(are),
            item=item,
            reverted_by=after.reverted[-1].revert if kind is AlertType.REVERTED else "",
            reverts=after.reverts,
        )
        for n, (kind, item) in enumerate(told)
    )


def _by_name(found: tuple[Item, ...]) -> dict[tuple[int, ItemKind], Item]:
    return {(item.step, item.kind): item for item in found if item.kind is not ItemKind.OUTBOX_PARKED}
