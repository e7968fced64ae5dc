"""The last text block of a reply: how to finish, what was undone, what waits for a person (WORDING.md)."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from mcp.client import Client
from tests.edge.scripted import (
    DONE,
    SAGA_ID,
    STUCK,
    UNDOING,
    UNDONE,
    Script,
    call,
    done,
    intended,
    saga_of,
    says,
    scripted,
    succeeded,
    told_tool,
)
from tests.edge.served import meta, text_of, texts_of

from saga_mcp.domain.duties import busy
from saga_mcp.domain.events import (
    AbortDeferred,
    AbortRequested,
    RollbackFinished,
    SagaCommitted,
    SagaIdled,
    StepFailed,
    StepFellInDoubt,
    StepSettled,
    UndoSucceeded,
)
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, Kind, OnError, PartAction, SettledBy
from saga_mcp.edge.look import Look
from saga_mcp.edge.memory import Memory
from saga_mcp.edge.wording import next_moves, trailing, waits_for
from saga_mcp.engine.port import CallReply
from saga_mcp.tools.port import ToolAnswer


async def test_the_first_reply_says_how_to_finish_and_later_ones_are_short() -> None:
    script = Script()
    last: list[str] = []
    async with Client(scripted(script, told_tool()), mode="legacy") as client:
        for number in range(1, 13):
            events = [event for n in range(1, number + 1) for event in (intended(n), succeeded(n))]
            script.reply = done(says("ok"), saga_of(*events), number)
            last.append(text_of(await client.call_tool("act", {"saga_id": SAGA_ID})))
    long = "Finish: saga_commit keeps all, saga_abort undoes all. After 1 h without a step a person is asked.]"
    assert last[0] == f"[saga {SAGA_ID}: step 1 done, undo ready. {long}"
    assert last[1] == f"[saga {SAGA_ID} open, 2 steps]"
    assert [number for number, text in enumerate(last, 1) if text.endswith(long)] == [1, 11]


@pytest.mark.parametrize(
    ("saga", "step", "text"),
    [
        (
            UNDONE,
            2,
            (
                "UNDONE: step 2 fail failed; all 2 steps are undone or had no effect, nothing is open. "
                "This id is closed. Do not undo anything yourself. Do not repeat the same call: fix the cause and "
                "start over with saga_begin, or tell the user.]"
            ),
        ),
        (
            UNDOING,
            3,
            (
                "BEING UNDONE: step 3 fail failed; 1 of 2 undone so far. Closed to new calls. "
                "saga_status tells the end.]"
            ),
        ),
        (
            STUCK,
            2,
            (
                f"NOT FULLY UNDONE: act waits for a person (item {SAGA_ID}.1). Tell the user. "
                "Do not try to repair it with other tools.]"
            ),
        ),
    ],
)
async def test_an_abort_is_told_as_far_as_it_went(saga: Saga, step: int, text: str) -> None:
    """WORDING.md; no reply ever says "clean" when something was left (DESIGN.md rule 4)."""
    answer = ToolAnswer(content=({"type": "text", "text": "declined"},), is_error=True)
    reply = CallReply(answer=answer, code="step_failed", saga_id=SAGA_ID, saga=saga, step=step)
    server = scripted(Script(reply), told_tool(), told_tool("fail"))
    async with Client(server, mode="legacy") as client:
        result = await client.call_tool("fail", {"saga_id": SAGA_ID})
    assert texts_of(result) == ["declined", f"[saga {SAGA_ID} {text}"]
    assert "secret@example.org" not in result.model_dump_json()


async def test_the_reply_after_an_idle_time_asks_to_finish() -> None:
    """SEMANTICS.md S9.4: the step itself has taken the flag away."""
    two = saga_of(intended(1), succeeded(1), SagaIdled(), intended(2), succeeded(2))
    script = Script(done(says("ok")))
    async with Client(scripted(script, told_tool()), mode="legacy") as client:
        await client.call_tool("act", {"saga_id": SAGA_ID})
        script.reply = replace(done(says("ok"), two, 2), was_idle=True)
        result = await client.call_tool("act", {"saga_id": SAGA_ID})
        script.reply = replace(done(says("ok"), UNDONE, 2), was_idle=True)
        undone = await client.call_tool("act", {"saga_id": SAGA_ID})
    assert texts_of(result)[-1] == (
        f"[saga {SAGA_ID}: step 2 done, undo ready. Finish: saga_commit keeps all, saga_abort undoes all. "
        "It was idle for long: finish it.]"
    )
    assert "idle" not in texts_of(undone)[-1]


async def test_residue_and_exemptions_are_never_told_as_undone() -> None:
    residue = saga_of(
        intended(1),
        succeeded(1, PartAction.LEAVE, "branch x"),
        AbortRequested(cause="agent"),
        UndoSucceeded(step=1, part="1"),
        RollbackFinished(),
    )
    script = Script(state=residue)
    async with Client(scripted(script), mode="legacy") as client:
        result = await client.call_tool("saga_abort", {"saga_id": SAGA_ID})
    assert "1 residue, 0 open" in text_of(result)
    assert "undone or had no effect" not in text_of(result)


async def test_the_third_automatic_abort_by_the_same_tool_and_error_says_stop() -> None:
    answer = ToolAnswer(content=({"type": "text", "text": "declined"},), is_error=True)
    script = Script(CallReply(answer=answer, code="step_failed", saga_id=SAGA_ID, saga=UNDONE, step=2))
    async with Client(scripted(script, told_tool("fail")), mode="legacy") as client:
        replies = [text_of(await client.call_tool("fail", {"saga_id": SAGA_ID})) for _ in range(3)]
        elsewhere = await client.call_tool(
            "fail", {"saga_id": SAGA_ID}, meta=meta(**{"vscode.conversationId": "other"})
        )
    assert ["Third time: stop and tell the user." in text for text in replies] == [False, False, True]
    assert "Third time" not in text_of(elsewhere)


async def test_a_sibling_of_a_failed_step_keeps_its_own_result_and_learns_of_the_abort() -> None:
    """SEMANTICS.md S4.3."""
    result = await call(Script(done(says("mine"), UNDOING, 2)), saga_id=SAGA_ID)
    assert result.is_error is False
    assert texts_of(result)[0] == "mine"
    assert "BEING UNDONE: step 3 shop.fail failed" in text_of(result)


async def test_a_step_whose_undo_cannot_be_built_says_so_now() -> None:
    """SEMANTICS.md S6.1."""
    saga = saga_of(intended(1), replace(succeeded(1), parts=None, build_error="no id"))
    result = await call(Script(done(says("ok"), saga)))
    assert "step 1 done, but its undo cannot be built" in text_of(result)


async def test_parallel_calls_that_opened_a_saga_each_are_told_so() -> None:
    """SEMANTICS.md S1.5."""

    opened: list[str] = []
    both = anyio.Event()

    async def together() -> CallReply:
        opened.append(f"sg-{len(opened) + 1}")
        saga = replace(DONE, id=opened[-1])
        if len(opened) == 2:
            both.set()
        await both.wait()
        return replace(done(says("ok"), saga), opened=True)

    replies: list[list[str]] = []

    async with Client(scripted(Script(together), told_tool()), mode="legacy") as client:

        async def one() -> None:
            replies.append(texts_of(await client.call_tool("act", {})))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one)
                tasks.start_soon(one)
    assert [len(texts) for texts in replies] == [2, 3]
    assert "opened 2 sagas: sg-1, sg-2" in replies[1][1] or "opened 2 sagas: sg-2, sg-1" in replies[1][1]


FAILED_ONCE = saga_of(intended(1), StepFailed(step=1, error="declined"))
WAITING_ABORT = saga_of(intended(1, kind=Kind.PIVOT), AbortDeferred(cause="agent"))


@pytest.mark.parametrize(
    ("saga", "number", "text"),
    [
        (
            FAILED_ONCE,
            1,
            ": step 1 act failed and had no effect. Finish: saga_commit keeps all, saga_abort undoes all.",
        ),
        (saga_of(intended(1)), 1, ": step 1 act is still running; do not call it again. Finish: saga_commit keeps all"),
        (
            saga_of(intended(1), StepFellInDoubt(step=1, reason="timeout", running=True, parts=())),
            1,
            ": step 1 act is unknown: it may have happened; do not call it again.",
        ),
        (WAITING_ABORT, 1, ": to be aborted once 1 act is settled. saga_status tells."),
        (saga_of(intended(1), succeeded(1, PartAction.MANUAL)), 1, ": step 1 done, undo needs a person."),
        (saga_of(intended(1), succeeded(1, PartAction.LEAVE)), 1, ": step 1 done, left as it is by an abort."),
        (saga_of(SagaIdled()), 0, " open, 0 steps"),
        (
            saga_of(intended(1), succeeded(1), SagaIdled()),
            1,
            ": step 1 done, undo ready. Finish: saga_commit keeps all, saga_abort undoes all. It was idle for long",
        ),
        (saga_of(intended(1), succeeded(1), SagaCommitted(by="agent")), 0, " COMMITTED: everything is kept (1 done, 0"),
        (
            saga_of(AbortRequested(cause="agent"), RollbackFinished()),
            0,
            " UNDONE: saga_abort was called; no step was made, nothing is open. This id is closed.",
        ),
        (
            saga_of(AbortRequested(cause="operator", by="ada"), RollbackFinished()),
            0,
            " UNDONE: an operator (ada) aborted it; no step was made",
        ),
        (saga_of(AbortRequested(cause="idle"), RollbackFinished()), 0, " UNDONE: the idle limit aborted it;"),
        (
            saga_of(AbortRequested(cause="invariant:no debt"), RollbackFinished()),
            0,
            ' UNDONE: the rule "no debt" does not hold;',
        ),
        (
            saga_of(intended(1), StepFailed(step=1), AbortRequested(cause="step_failed:1"), RollbackFinished()),
            1,
            " UNDONE: step 1 act failed; the step is undone or had no effect, nothing is open.",
        ),
    ],
)
def test_every_state_has_its_words(saga: Saga, number: int, text: str) -> None:
    said = trailing(Look.at(saga), number, lambda tool: tool.removeprefix("shop."), long=number > 0)
    assert said.startswith(f"[saga {SAGA_ID}{text}")
    assert said.endswith("]")


def test_an_effect_found_after_the_commit_is_told_to_the_user() -> None:
    late = StepSettled(step=1, landed=True, by=SettledBy.LATE_ANSWER, parts=())
    saga = saga_of(intended(1), StepFailed(step=1), SagaCommitted(by="agent", accepted=(1,)), late)
    said = trailing(Look.at(saga), 0, str)
    assert said.startswith(f"[saga {SAGA_ID} COMMITTED, and shop.act waits for a person (item {SAGA_ID}.1).")


def test_what_is_remembered_of_replies_is_bounded() -> None:
    memory = Memory()
    first = Look.at(DONE)
    assert memory.long_form_due(first, 1) is True
    assert memory.long_form_due(first, 1) is False
    for number in range(1000):
        memory.long_form_due(Look.at(replace(DONE, id=f"sg-{number}")), 1)
    assert memory.long_form_due(first, 1) is True


@pytest.mark.parametrize(
    ("saga", "move"),
    [
        (saga_of(SagaCommitted(by="agent")), "Nothing: everything is kept. saga_begin opens another saga."),
        (
            replace(saga_of(intended(1), StepFellInDoubt(step=1, reason="lost", parts=())), on_error=OnError.ABORT),
            "Wait, then saga_status: something is running or being looked into. Do not call it again.",
        ),
    ],
)
def test_every_state_has_a_next_move(saga: Saga, move: str) -> None:
    assert next_moves(Look.at(saga), str, busy=busy(saga)) == [move]


def test_every_kind_of_item_says_what_it_waits_for() -> None:
    assert len({waits_for(kind) for kind in ItemKind}) == len(ItemKind)


def test_text_from_outside_cannot_steer_a_terminal_or_break_the_line() -> None:
    """SEMANTICS.md S11.6."""
    saga = saga_of(intended(1, "shop.\x1b[2J\u202eact\n"), StepFailed(step=1))
    said = trailing(Look.at(saga), 1, str)
    assert "step 1 shop.\\x1b[2J\\u202eact\\n failed" in said
    assert said.isprintable()


def test_what_stays_by_decision_does_not_count_as_undone() -> None:
    saga = saga_of(
        intended(1),
        succeeded(1, PartAction.CALL),
        intended(2),
        succeeded(2, PartAction.LEAVE, "it rang"),
        AbortRequested(cause="agent"),
        UndoSucceeded(step=2, part="1", answer="it rang"),
    )
    assert "0 of 2 undone, 1 stays so far." in trailing(Look.at(saga), 0, str)
