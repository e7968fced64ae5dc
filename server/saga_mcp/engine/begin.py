"""What is appended before anything of a call is sent: its intent, a question, or nothing, for a repeat."""

from __future__ import annotations

from saga_mcp.domain.approvals import ask, begin_allowed
from saga_mcp.domain.events import Event
from saga_mcp.domain.repeats import Asked, Join, NewStep, Replay, SendAgain, Unknown
from saga_mcp.domain.saga_decisions import begin_step
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import attempt_again
from saga_mcp.domain.values import JsonValue
from saga_mcp.engine.ticket import AllowedCall, Arrival, AskingCall, Call, Order
from saga_mcp.engine.workshop import Workshop


def first_events(
    shop: Workshop, saga: Saga, order: Order, known: Arrival, call: Call, capture: JsonValue
) -> tuple[Event, ...]:
    """Return the first events of a call.

    Args:
        shop: Whose settings, clock and owner id hold.
        saga: The state now.
        order: What is to run.
        known: What was known of the caller's earlier replies.
        call: What the call is: new, or a repeat.
        capture: What was there before it.

    Raises:
        Refused: the saga does not take it.
    """
    me = shop.owners.me
    match call:
        case NewStep():
            return begin_step(
                saga,
                order.plan,
                me,
                opening=order.opening,
                seen=known.seen,
                received=known.received,
                capture=capture,
            )
        case AskingCall():
            expires_at = shop.clock.wall() + shop.settings.approval_expires_s
            return ask(
                saga,
                order.plan,
                opening=order.opening,
                seen=known.seen,
                received=known.received,
                expires_at=expires_at,
            )
        case AllowedCall(number=number):
            return begin_allowed(saga, number, me, capture)
        case SendAgain(number=number):
            return attempt_again(saga, number, me)
        case Join() | Replay() | Asked() | Unknown():
            return ()
