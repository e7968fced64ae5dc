"""What becomes of an open saga, and when, in its replies (CASES C94, SEMANTICS.md S9.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mcp.client import Client
from tests.edge.scripted import (
    DONE,
    SAGA_ID,
    STUCK,
    UNDOING,
    UNDONE,
    Script,
    done,
    intended,
    saga_of,
    says,
    scripted,
    succeeded,
    told_tool,
)
from tests.edge.served import text_of

from saga_mcp.domain.events import SagaCommitted, SagaIdled, SavepointSet, StepFailed, StepFellInDoubt
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Kind, OnError, OnIdle
from saga_mcp.edge.deadline import deadline
from saga_mcp.edge.look import Look
from saga_mcp.engine.port import EngineSettings

FLAG = EngineSettings(realm="test")
ABORT = replace(FLAG, on_idle=OnIdle.ABORT)
COMMIT = replace(FLAG, on_idle=OnIdle.COMMIT)

FAILED = replace(saga_of(intended(1), StepFailed(step=1)), on_error=OnError.HOLD)
PAST_PIVOT = saga_of(intended(1, kind=Kind.PIVOT), succeeded(1))
IDLE = saga_of(intended(1), succeeded(1), SagaIdled())


@pytest.mark.case(94)
@pytest.mark.parametrize(
    ("saga", "settings", "said"),
    [
        (DONE, FLAG, "After 1 h without a step a person is asked."),
        (DONE, ABORT, "Undone after 24 h without a step."),
        (DONE, COMMIT, "Kept after 24 h without a step."),
        (saga_of(), ABORT, "Undone after 24 h without a step."),
        (IDLE, FLAG, ""),
        (IDLE, ABORT, "Undone after 24 h without a step."),
        (PAST_PIVOT, ABORT, "After 1 h without a step a person is asked."),
        (PAST_PIVOT, COMMIT, "Kept after 24 h without a step."),
        (FAILED, ABORT, "Undone after 24 h without a step."),
        (FAILED, COMMIT, "After 1 h without a step a person is asked."),
        (saga_of(intended(1)), ABORT, ""),
        (saga_of(intended(1), StepFellInDoubt(step=1, reason="timeout", running=True, parts=())), ABORT, ""),
        (saga_of(intended(1), succeeded(1), SagaCommitted(by="agent")), ABORT, ""),
        (UNDOING, ABORT, ""),
        (UNDONE, ABORT, ""),
        (STUCK, ABORT, ""),
    ],
)
def test_a_limit_is_told_where_it_runs_and_as_what_it_does(saga: Saga, settings: EngineSettings, said: str) -> None:
    assert deadline(Look.at(saga), settings) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(3600, "1 h"), (90_000, "25 h"), (5400, "90 min"), (90, "90 s"), (0.25, "0.25 s"), (1_234_567, "1234567 s")],
)
def test_a_length_of_time_is_exact(seconds: float, said: str) -> None:
    settings = replace(ABORT, idle_end_s=seconds)
    assert deadline(Look.at(DONE), settings) == f"Undone after {said} without a step."


@pytest.mark.case(94)
async def test_every_reply_of_an_open_saga_says_when_it_ends() -> None:
    two = saga_of(intended(1), succeeded(1), intended(2), succeeded(2))
    marked = saga_of(SavepointSet(name="here"))
    script = Script(done(says("ok")), state=DONE, settings=ABORT)
    async with Client(scripted(script, told_tool()), mode="legacy") as client:
        first = text_of(await client.call_tool("act", {"saga_id": SAGA_ID}))
        script.reply = done(says("ok"), two, 2)
        second = text_of(await client.call_tool("act", {"saga_id": SAGA_ID}))
        status = await client.call_tool("saga_status", {"saga_id": SAGA_ID})
        script.state = marked
        mark = text_of(await client.call_tool("saga_savepoint", {"saga_id": SAGA_ID, "name": "here"}))
        back = text_of(await client.call_tool("saga_abort", {"saga_id": SAGA_ID, "to_savepoint": "here"}))
        begun = text_of(await client.call_tool("saga_begin", {}))
    finish = "Finish: saga_commit keeps all, saga_abort undoes all."
    ends = "Undone after 24 h without a step."
    assert first == f"[saga {SAGA_ID}: step 1 done, undo ready. {finish} {ends}]"
    assert second == f"[saga {SAGA_ID} open, 2 steps. {ends}]"
    assert status.structured_content["next"][-1] == ends
    assert mark == f'[saga {SAGA_ID} open: save-point "here" set after 0 steps. {ends}]'
    assert back == f'[saga {SAGA_ID} open: undone back to save-point "here". active: 0 done, 0 open. {finish} {ends}]'
    assert begun == f"[saga {SAGA_ID} open. Pass this saga_id to every call of the task. {finish} {ends}]"


async def test_a_limit_that_ends_nothing_is_told_with_how_to_finish_only() -> None:
    script = Script(done(says("ok")))
    async with Client(scripted(script, told_tool()), mode="legacy") as client:
        first, second = [text_of(await client.call_tool("act", {"saga_id": SAGA_ID})) for _ in range(2)]
    assert first.endswith("saga_abort undoes all. After 1 h without a step a person is asked.]")
    assert second == f"[saga {SAGA_ID} open, 1 step]"
