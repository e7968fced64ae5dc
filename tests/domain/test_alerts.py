"""What there is to tell about a decision (SEMANTICS.md S10.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.domain import alphabet as a
from tests.domain.walk import explore

from saga_mcp.domain import events as e
from saga_mcp.domain.alerts import AlertType, alerts
from saga_mcp.domain.attention import NEEDS_ATTENTION, items, reported_state
from saga_mcp.domain.machine import fold
from saga_mcp.domain.state import Reverted, Saga
from saga_mcp.domain.values import ItemKind, Kind, OnError, Phase

WALKED = (
    a.Alphabet(name="told", steps=1, plans=(a.PYTHON,), bindings=((a.ONCE,), None), rare=True, approvals=True),
    a.Alphabet(name="kept back", steps=1, plans=(a.PLAIN,), bindings=((a.MANUAL,),), alerts=True),
)
NEW = Saga(id="sg-a")
OPEN = fold(NEW, [e.SagaOpened(realm="r", driver="me", on_error=OnError.HOLD)])


def names(saga: Saga) -> set[tuple[int, ItemKind]]:
    return {(item.step, item.kind) for item in items(saga) if item.kind is not ItemKind.OUTBOX_PARKED}


@pytest.mark.slow
def test_what_was_told_to_be_open_is_what_is_open_after_every_event() -> None:
    for alphabet in WALKED:
        for edge in explore(alphabet):
            told = alerts(edge.before, edge.after)
            opened = {(t.item.step, t.item.kind) for t in told if t.item and t.type is AlertType.ITEM_OPENED}
            closed = {(t.item.step, t.item.kind) for t in told if t.item and t.type is AlertType.ITEM_CLOSED}
            assert names(edge.after) == (names(edge.before) - closed) | opened
            entered = reported_state(edge.after) == NEEDS_ATTENTION != reported_state(edge.before)
            assert (AlertType.NEEDS_ATTENTION in [t.type for t in told]) == entered
            assert [t.n for t in told] == list(range(len(told)))


def test_an_item_that_becomes_another_one_is_closed_before_that_is_opened() -> None:
    asked = fold(OPEN, [e.StepAwaitingApproval(step=1, plan=a.PLAIN)])
    doubtful = fold(
        asked,
        [
            e.StepApproved(step=1, by="ada"),
            e.StepIntended(step=1, plan=a.PLAIN, owner="me"),
            e.StepFellInDoubt(step=1, reason="error", parts=(a.CALL,)),
        ],
    )
    told = [(each.type, each.item and each.item.kind) for each in alerts(asked, doubtful)]
    assert told[:2] == [(AlertType.ITEM_CLOSED, ItemKind.APPROVAL), (AlertType.ITEM_OPENED, ItemKind.IN_DOUBT)]


def test_no_value_of_the_outside_world_is_in_an_alert() -> None:
    plan = e.StepPlan(tool="mail.send", kind=Kind.COMPENSABLE, args={"to": "S3CRET"})
    before = fold(OPEN, [e.StepIntended(step=1, plan=plan, owner="me")])
    after = fold(before, [e.StepFellInDoubt(step=1, reason="error", parts=None, build_error="S3CRET", error="S3CRET")])
    told = alerts(before, after)
    assert told
    assert "S3CRET" not in repr([(each.subject, each.data) for each in told])


def test_a_revert_is_told_of_both_sagas() -> None:
    kept = fold(OPEN, [e.SagaCommitted(by="agent")])
    (told,) = alerts(kept, replace(kept, reverted=(Reverted(revert="sg-b", steps=()),)))
    assert (told.type, told.data["reverted_by"]) == (AlertType.REVERTED, "sg-b")
    reverting = replace(OPEN, reverts="sg-a", phase=Phase.COMPENSATING)
    (ended,) = alerts(reverting, replace(reverting, phase=Phase.COMPENSATED))
    assert (ended.type, ended.data["reverts"]) == (AlertType.COMPENSATED, "sg-a")


def test_alerts_that_are_kept_back_alert_nobody() -> None:
    assert alerts(OPEN, fold(OPEN, [e.AlertsParked(reason="HTTP 500")])) == ()
