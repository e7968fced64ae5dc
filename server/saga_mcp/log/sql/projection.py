"""What a saga's row says of it, by its events: what is written there, and what `verify` holds the row against."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from saga_mcp.domain import attention, duties
from saga_mcp.domain.attention import QUARANTINED
from saga_mcp.domain.state import Saga

_LISTED = ("phase", "state", "open", "items", "steps", "reverted_by")
"""By which sagas are found and shown in lists."""


def identity(state: Saga) -> dict[str, Any]:
    """What never changes."""
    return {
        "id": state.id,
        "realm": state.realm,
        "caller": state.caller,
        "conversation": state.conversation,
        "key": state.key,
        "purpose": state.purpose,
    }


def projection(state: Saga, at: float) -> dict[str, Any]:
    """What changes with the events."""
    items = len(attention.items(state))
    return {
        "phase": state.phase.value,
        # Only an item can make it anything but the phase (S2.2), and looking for items walks all steps.
        "state": attention.reported_state(state) if items else state.phase.value,
        "driver": state.driver,
        "busy": duties.busy(state),
        "open": not state.final or items > 0,
        "items": items,
        "steps": len(state.steps),
        "seq": state.seq,
        "updated_at": at,
        "reverted_by": " ".join(other.revert for other in state.reverted),
        "idles": attention.idles(state),
        "of_realm": state.realm,
        "ends": state.final,
        "wipes": state.wiped,
        "now": at,
    }


def differs(row: Row[Any], state: Saga) -> str:
    """Return in which column a row is not what the events give, and how; empty: in none that lists are made of."""
    if row.state == QUARANTINED:
        return ""  # somebody could not read the events; whoever can puts it right
    given = {**identity(state), **{name: value for name, value in projection(state, 0.0).items() if name in _LISTED}}
    stored = {name: getattr(row, name) for name in given}
    for name, happened in (("ended_at", state.final), ("wiped_at", state.wiped)):
        given[name], stored[name] = happened, getattr(row, name) is not None  # when it was is in no event's facts
    return next(
        (f"{name} {stored[name]!r}, not {value!r}" for name, value in given.items() if stored[name] != value), ""
    )
