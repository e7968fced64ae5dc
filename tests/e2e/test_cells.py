"""Every state of a step that an agent can meet, and every move of an agent in it, over MCP: what is answered and done.

What a person does about each kind of item is tried line by line with the runbook (`docs/operations.md`). The events of
`docs/states.md` that are left are nobody's move: outcomes, late answers, probes, deadlines and the loss of an owner. A
client cannot make them; schedules and days (`tests/chaos`) do.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.e2e.cells import APPROVAL, MOVES, SETTINGS, WAYS
from tests.e2e.product import Product

from saga_mcp.domain.values import StepState

CELLS: Mapping[str, Mapping[str, str]] = {
    "awaiting_approval": {
        "the same call": "approval_needed, active",
        "the same call with a key": "approval_needed, active",
        "another call": "ok, active, hold(z)",
        "a pivot": "step_unsettled, active",
        "a retriable call": "kind_refused, active",
        "savepoint": "ok, active",
        "commit": "commit_refused, active",
        "commit, accepting the failure": "commit_refused, active",
        "abort": "ok, compensated",
        "abort to no mark": "savepoint_not_found, active",
    },
    "cancelled": {
        "the same call": "approval_rejected, active",
        "the same call with a key": "approval_rejected, active",
        "another call": "ok, active, hold(z)",
        "a pivot": "ok, active, send_mail(eve)",
        "a retriable call": "kind_refused, active",
        "savepoint": "ok, active",
        "commit": "ok, committed",
        "commit, accepting the failure": "commit_refused, active",
        "abort": "ok, compensated",
        "abort to no mark": "savepoint_not_found, active",
    },
    "intended": {
        "the same call": "still_running, active",
        "the same call with a key": "still_running, active, sent",
        "another call": "ok, active, hold(z)",
        "a pivot": "step_unsettled, active",
        "a retriable call": "kind_refused, active",
        "savepoint": "step_unsettled, active",
        "commit": "commit_refused, active",
        "commit, accepting the failure": "commit_refused, active",
        "abort": "ok, compensating",
        "abort to no mark": "savepoint_not_found, active",
    },
    "succeeded": {
        "the same call": "ok, active, reserve(a)",
        "the same call with a key": "ok, active, reserve(a)",
        "another call": "ok, active, hold(z)",
        "a pivot": "ok, active, send_mail(eve)",
        "a retriable call": "kind_refused, active",
        "savepoint": "ok, active",
        "commit": "ok, committed",
        "commit, accepting the failure": "commit_refused, active",
        "abort": "ok, compensated, release(a)",
        "abort to no mark": "savepoint_not_found, active",
    },
    "succeeded, a pivot": {
        "the same call": "kind_refused, active",
        "the same call with a key": "kind_refused, active",
        "another call": "kind_refused, active",
        "a pivot": "kind_refused, active",
        "a retriable call": "ok, active, notify(eve)",
        "savepoint": "pivot_passed, active",
        "commit": "ok, committed",
        "commit, accepting the failure": "commit_refused, active",
        "abort": "pivot_passed, active",
        "abort to no mark": "pivot_passed, active",
    },
    "succeeded, committed": {
        "the same call": "saga_closed, committed",
        "the same call with a key": "saga_closed, committed",
        "another call": "saga_closed, committed",
        "a pivot": "saga_closed, committed",
        "a retriable call": "saga_closed, committed",
        "savepoint": "saga_closed, committed",
        "commit": "ok, committed",
        "commit, accepting the failure": "ok, committed",
        "abort": "saga_closed, committed",
        "abort to no mark": "saga_closed, committed",
    },
    "failed": {
        "the same call": "step_failed, active, sent",
        "the same call with a key": "step_failed, active, sent",
        "another call": "ok, active, hold(z)",
        "a pivot": "ok, active, send_mail(eve)",
        "a retriable call": "kind_refused, active",
        "savepoint": "ok, active",
        "commit": "commit_refused, active",
        "commit, accepting the failure": "ok, committed",
        "abort": "ok, compensated",
        "abort to no mark": "savepoint_not_found, active",
    },
    "in_doubt": {
        "the same call": "outcome_unknown, needs_attention",
        "the same call with a key": "outcome_unknown, needs_attention, wire(5)",
        "another call": "ok, needs_attention, hold(z)",
        "a pivot": "step_unsettled, needs_attention",
        "a retriable call": "kind_refused, needs_attention",
        "savepoint": "step_unsettled, needs_attention",
        "commit": "commit_refused, needs_attention",
        "commit, accepting the failure": "commit_refused, needs_attention",
        "abort": "needs_person, needs_attention",
        "abort to no mark": "savepoint_not_found, needs_attention",
    },
    "compensating": {
        "the same call": "saga_aborted, compensating",
        "the same call with a key": "saga_aborted, compensating",
        "another call": "saga_aborted, compensating",
        "a pivot": "saga_aborted, compensating",
        "a retriable call": "saga_aborted, compensating",
        "savepoint": "saga_aborted, compensating",
        "commit": "saga_aborted, compensating",
        "commit, accepting the failure": "saga_aborted, compensating",
        "abort": "ok, compensating",
        "abort to no mark": "saga_aborted, compensating",
    },
    "compensated": {
        "the same call": "saga_aborted, compensated",
        "the same call with a key": "saga_aborted, compensated",
        "another call": "saga_aborted, compensated",
        "a pivot": "saga_aborted, compensated",
        "a retriable call": "saga_aborted, compensated",
        "savepoint": "saga_aborted, compensated",
        "commit": "saga_aborted, compensated",
        "commit, accepting the failure": "saga_aborted, compensated",
        "abort": "ok, compensated",
        "abort to no mark": "saga_aborted, compensated",
    },
    "exempt": {
        "the same call": "outcome_unknown, needs_attention, wire(5)",
        "the same call with a key": "outcome_unknown, needs_attention, wire(5)",
        "another call": "ok, active, hold(z)",
        "a pivot": "ok, active, send_mail(eve)",
        "a retriable call": "kind_refused, active",
        "savepoint": "ok, active",
        "commit": "ok, committed",
        "commit, accepting the failure": "commit_refused, active",
        "abort": "ok, compensated",
        "abort to no mark": "savepoint_not_found, active",
    },
}
"""By state and move: the code of the reply, the saga's state after it, and what took effect, or only was sent."""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("state", CELLS)
async def test_a_move_in_a_state_is_answered_and_carried_out_as_the_table_says(product: Product, state: str) -> None:
    product.configure(SETTINGS, APPROVAL)
    way, call = WAYS[state]
    seen: dict[str, str] = {}
    async with product.serve() as client:
        for name, move in MOVES.items():
            saga_id = await way(product, client)
            before = await client.status(saga_id)
            assert before["steps"][0]["state"] == state.split(",", maxsplit=1)[0]
            effects, sent = len(product.world.order), len(product.world.sent())
            reply = await move(client, saga_id, call)
            after = await client.status(saga_id)
            did = product.world.order[effects:] or ["sent"] * (len(product.world.sent()) - sent)
            seen[name] = ", ".join([reply.code or "ok", after["state"], *did])
    assert seen == CELLS[state]


def test_the_table_has_every_state_and_every_move() -> None:
    assert {state.split(",", maxsplit=1)[0] for state in CELLS} == set(StepState)
    assert CELLS.keys() == WAYS.keys()
    assert all(row.keys() == MOVES.keys() for row in CELLS.values())
