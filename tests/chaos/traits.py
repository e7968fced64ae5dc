"""The tools of a schedule: what is special about each, and how often what goes wrong with a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from saga_mcp.domain.values import Kind, PartAction
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_tools import Retry

TIMEOUT_S = 2.0
DEADLINE_S = 6.0
UNDO_DEADLINE_S = 10 * TIMEOUT_S
SETTLE_S = 0.5
QUICK = Retry(attempts=3, first_delay_s=0.1, max_delay_s=0.5)
BAD = 13
"""A result that a rule forbids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """What is special about one tool."""

    kind: Kind = Kind.COMPENSABLE
    undo: PartAction | None = PartAction.CALL
    once: bool = False
    """Its undo must not be sent again, or blindly."""
    idempotent: bool = False
    attempts: int = 1
    probe: bool = False
    needs_result: bool = False
    thread: bool = False
    """Neither it nor its undo can be stopped."""
    asks: bool = False
    """Its undo says that only a person can do it."""
    parts: int = 0
    """Effects of their own, each with an undo that the call registers."""
    approval: bool = False
    """A person has to allow each call."""
    upstream: str = ""
    """The server that has it, which may be down; empty: it runs in the process."""
    elsewhere: bool = False
    """Its calls go on where their connection and their process have ended."""
    room: bool = False
    """It works on one of a few rooms, which a saga holds to its end."""


TRAITS: Mapping[str, Trait] = {
    "reserve": Trait(),
    "hold": Trait(thread=True),
    "charge": Trait(once=True, probe=True),
    "wire": Trait(once=True),
    "pay": Trait(once=True, thread=True, probe=True),
    "book": Trait(idempotent=True, attempts=3),
    "order": Trait(attempts=3),
    "measure": Trait(needs_result=True),
    "lookup": Trait(needs_result=True, probe=True, once=True),
    "post": Trait(asks=True),
    "letter": Trait(undo=PartAction.MANUAL),
    "gift": Trait(undo=PartAction.LEAVE),
    "many": Trait(parts=2),
    "mail": Trait(kind=Kind.PIVOT, undo=None),
    "announce": Trait(kind=Kind.PIVOT, undo=None, probe=True),
    "notify": Trait(kind=Kind.RETRIABLE, undo=None, idempotent=True, attempts=3),
    "poll": Trait(kind=Kind.RETRIABLE, undo=None, probe=True, attempts=2),
    "balance": Trait(kind=Kind.READ_ONLY, undo=None),
}
"""Of every schedule."""
TRAITS_OF_A_DAY: Mapping[str, Trait] = {
    "let": Trait(room=True),
    "buy": Trait(approval=True, once=True, probe=True),
    "rent": Trait(approval=True, room=True, upstream="north"),
    "ship": Trait(upstream="north", once=True, probe=True),
    "store": Trait(upstream="north"),
    "wash": Trait(upstream="south", elsewhere=True),
    "load": Trait(upstream="south", elsewhere=True, once=True, probe=True),
    "launch": Trait(kind=Kind.PIVOT, undo=None, approval=True, upstream="south", probe=True),
    "report": Trait(kind=Kind.RETRIABLE, undo=None, idempotent=True, attempts=3, upstream="south", elsewhere=True),
    **TRAITS,
}
"""Of a day, in which people are asked and servers are down."""
UPSTREAMS = ("north", "south")
ROOMS = 3

FORWARD = {
    "ok": 50,
    "refused": 6,
    "broken before": 6,
    "broken after": 6,
    "slow": 4,
    "slow and refused": 2,
    "slow and broken": 2,
    "stuck": 3,
    "lost": 2,
}
UNDO = {
    "ok": 60,
    "refused": 8,
    "unreachable": 3,
    "broken before": 6,
    "broken after": 6,
    "slow": 4,
    "stuck": 2,
    "gives up": 2,
}
OF_THREADS = {"stuck": 30}
"""What cannot be stopped is there to get stuck."""


def _pair(name: str, trait: Trait) -> Pair:
    entry = UndoEntry(
        action=trait.undo or PartAction.NOTHING,
        tool=f"t.un{name}" if trait.undo is PartAction.CALL else "",
        args={"effect": "${step.key}"} if trait.undo is PartAction.CALL else {},
        message="by hand",
        target_id="here",
        outlives_us=trait.elsewhere,
        idempotent=not trait.once,
        needs_result=trait.needs_result,
        timeout_s=TIMEOUT_S,
        retry=QUICK,
    )
    return Pair(
        tool=f"t.{name}",
        kind=trait.kind,
        undo=() if trait.undo is None else (entry,),
        safe_if_absent=trait.undo is not None and not trait.once,
        idempotent=trait.idempotent,
        has_probe=trait.probe,
        retry=Retry(attempts=trait.attempts, first_delay_s=0.1, max_delay_s=0.5),
        timeout_s=TIMEOUT_S,
        hard_deadline_s=DEADLINE_S,
        settle_s=SETTLE_S,
        target_id="here",
        outlives_us=trait.elsewhere,
        approval=trait.approval,
        resource="${args.room}" if trait.room else "",
    )


PAIRS = {name: _pair(name, trait) for name, trait in TRAITS_OF_A_DAY.items()}
