"""The view of a saga: what happened, what an abort would do now, what the agent can do next; always under 20 kB."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import RequestParamsMeta
from tests.edge.scripted import SAGA_ID, Script, intended, saga_of, scripted, succeeded, told_tool
from tests.edge.served import ERAS, meta, text_of

from saga_mcp.domain.events import (
    AbortRequested,
    Event,
    PartSpec,
    RollbackFinished,
    SagaIdled,
    SavepointSet,
    StepFailed,
    StepFellInDoubt,
    UndoIntended,
    UndoParked,
    UndoSucceeded,
)
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, JsonObject, Kind, PartAction
from saga_mcp.edge import wording
from saga_mcp.log.port import SagaRow

SENTINEL = "sentinel-value"


async def status(saga: Saga, era: str = "legacy", **arguments: object) -> dict[str, Any]:
    server = scripted(Script(state=saga), told_tool())
    async with Client(server, mode=era) as client:
        await client.list_tools()
        result = await client.call_tool("saga_status", {"saga_id": SAGA_ID, **arguments})
    assert len(result.model_dump_json(by_alias=True).encode()) < 20_000
    assert SENTINEL not in result.model_dump_json()
    view: dict[str, Any] = result.structured_content
    return view


@pytest.mark.case(26)
async def test_the_error_that_caused_an_abort_stays_readable_after_the_rollback() -> None:
    """An agent that only sees "aborted" repeats its mistake."""
    saga = saga_of(
        intended(1, x=SENTINEL),
        succeeded(1),
        intended(2, x=SENTINEL),
        StepFailed(step=2, error="card declined\x1b[2J"),
        AbortRequested(cause="step_failed:2", by="policy"),
        UndoIntended(step=1, part="1", owner="me"),
        UndoSucceeded(step=1, part="1"),
        RollbackFinished(),
    )
    view = await status(saga)
    assert view["state"] == "compensated"
    assert view["cause"] == {
        "code": "step_failed:2",
        "text": "step 2 act failed",
        "error": "card declined\\x1b[2J",
    }
    assert view["steps"] == [
        {"step": 1, "tool": "act", "kind": "compensable", "state": "compensated", "undo": "done"},
        {"step": 2, "tool": "act", "kind": "compensable", "state": "failed", "error": "card declined\\x1b[2J"},
    ]
    assert view["undo_plan"] == []
    assert view["next"] == ["Fix the cause and start over once with saga_begin, or tell the user."]


async def test_the_undo_plan_is_in_rollback_order_and_says_what_an_abort_cannot_do() -> None:
    saga = saga_of(
        intended(1),
        intended(2),
        succeeded(2),
        succeeded(1),
        intended(3),
        succeeded(3, PartAction.MANUAL, f"ask {SENTINEL}"),
        intended(4),
        succeeded(4, PartAction.LEAVE),
        intended(5),
        StepFailed(step=5),
    )
    view = await status(replace(saga, on_error=saga.on_error))
    plan = [(entry["step"], entry["does"], entry.get("only_after_a_person", False)) for entry in view["undo_plan"]]
    assert plan == [
        (4, "leave it as configured", False),
        (3, "a person undoes it", False),
        (1, "undo", True),
        (2, "undo", True),
    ]


async def test_a_running_step_has_to_end_before_its_undo() -> None:
    view = await status(saga_of(intended(1), succeeded(1), intended(2)))
    assert [entry["does"] for entry in view["undo_plan"]] == ["wait for its end", "undo"]
    assert view["steps"][1]["running"] is True
    assert view["next"][0].startswith("Wait, then saga_status")


async def test_a_guarded_undo_is_planned_with_its_condition() -> None:
    began = intended(1)
    view = await status(saga_of(replace(began, plan=replace(began.plan, guarded=True)), succeeded(1)))
    assert [entry["does"] for entry in view["undo_plan"]] == ["undo, unless somebody else has changed it since"]


async def test_a_step_in_doubt_that_cannot_be_undone_blindly_asks_a_person() -> None:
    doubt = StepFellInDoubt(step=1, reason="timeout", end_known=True, parts=(PartSpec(action=PartAction.CALL),))
    view = await status(saga_of(intended(1), doubt))
    assert [entry["does"] for entry in view["undo_plan"]] == ["a person decides"]


async def test_past_the_pivot_nothing_is_planned_and_abort_is_not_offered() -> None:
    saga = saga_of(intended(1), succeeded(1), intended(2, kind=Kind.PIVOT), replace(succeeded(2), parts=()))
    view = await status(saga)
    assert view["undo_plan"] == []
    assert view["next"] == [
        "Go on: pass this saga_id to the next call.",
        "saga_commit keeps all.",
        "After 1 h without a step a person is asked.",
    ]


async def test_what_waits_for_a_person_is_named_without_the_values_that_only_a_person_reads() -> None:
    """SEMANTICS.md S11.4: what a manual undo asks is a rendered message."""
    saga = saga_of(
        intended(1),
        succeeded(1, PartAction.MANUAL, f"Mail to {SENTINEL} was sent."),
        AbortRequested(cause="agent", reason="wrong\nplan"),
        UndoParked(step=1, part="1", item=ItemKind.MANUAL_UNDO, message=f"Mail to {SENTINEL} was sent."),
    )
    view = await status(saga)
    assert view["state"] == "needs_attention"
    assert view["reason"] == "wrong\\nplan"
    assert view["items"] == [
        {
            "item": f"{SAGA_ID}.1",
            "kind": "manual_undo",
            "waits_for": "only a person can undo this",
            "tool": "act",
            "urgency": "normal",
        }
    ]
    assert view["next"] == ["Tell the user what waits for a person, and stop. Do not repair it with other tools."]


async def test_an_error_of_an_undo_is_shown() -> None:
    saga = saga_of(
        intended(1),
        succeeded(1),
        AbortRequested(cause="agent"),
        UndoParked(step=1, part="1", item=ItemKind.DEAD_LETTER, message="502 from the bank"),
    )
    assert (await status(saga))["steps"][0]["undo_error"] == "502 from the bank"


async def test_the_undo_of_each_step_says_how_far_it_is() -> None:
    two = (PartSpec(action=PartAction.CALL), PartSpec(action=PartAction.CALL))
    saga = saga_of(
        intended(1),
        succeeded(1),
        intended(2),
        replace(succeeded(2), parts=None, build_error="no id in the result"),
        intended(3),
        StepFellInDoubt(step=3, reason="timeout", running=True, parts=()),
        intended(4),
        replace(succeeded(4), parts=two),
    )
    before = (await status(saga))["steps"]
    assert [step["undo"] for step in before] == ["ready", "cannot be built", "not known yet", "ready"]
    assert before[1]["undo_error"] == "no id in the result"
    undoing = saga_of(
        intended(1),
        succeeded(1),
        intended(2),
        replace(succeeded(2), parts=two),
        AbortRequested(cause="agent"),
        UndoIntended(step=2, part="1", owner="me"),
        UndoSucceeded(step=2, part="1"),
        UndoIntended(step=2, part="2", owner="me"),
    )
    assert [step["undo"] for step in (await status(undoing))["steps"]] == ["next", "1 of 2 done, running"]


async def test_a_doubt_that_a_probe_can_settle_is_planned_so() -> None:
    plan = replace(intended(1).plan, has_probe=True)
    doubt = StepFellInDoubt(step=1, reason="lost", end_known=True, parts=(PartSpec(action=PartAction.CALL),))
    view = await status(saga_of(replace(intended(1), plan=plan), doubt))
    assert view["undo_plan"][0]["does"] == "find out whether it happened, then undo it if it did"


async def test_failed_steps_that_block_a_commit_are_named() -> None:
    """SEMANTICS.md S4.4."""
    events: list[Event] = []
    for number in range(1, 31):
        events += [intended(number), StepFailed(step=number)]
    first = await status(saga_of(*events[:4]))
    assert first["next"][1] == "saga_commit with accept_failed=[1, 2] keeps all."
    assert (await status(saga_of(*events)))["next"][1].endswith("19, 20, ...] keeps all.")


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_saga_comes_in_pages_that_together_hold_every_step_once(era: str) -> None:
    events: list[Event] = []
    for number in range(1, 301):
        events += [intended(number, x=SENTINEL), succeeded(number)]
    saga = saga_of(*events)
    seen: list[int] = []
    after = 0
    while True:
        view = await status(saga, era, after_step=after)
        seen += [step["step"] for step in view["steps"]]
        assert len(view["undo_plan"]) + view.get("undo_plan_not_shown", 0) == 300
        if "next_after_step" not in view:
            break
        assert view["next_after_step"] > after
        after = view["next_after_step"]
    assert seen == list(range(1, 301))


@pytest.mark.parametrize("filler", ["x", "\u6f22", "\x00", '"', "\U0001f600", "\U000e0001"])
async def test_no_text_makes_a_status_longer_than_twenty_kilobytes(filler: str) -> None:
    long = filler * 200
    events: list[Event] = [SavepointSet(name=f"{filler * 190}{number}") for number in range(30)]
    for number in range(1, 31):
        events.append(intended(number, tool="shop.act"))
        events.append(StepFailed(step=number, error=filler * 5_000))
    opened = saga_of(*events)
    saga = replace(opened, purpose=long, reason=long, cause="step_failed:7")
    view = await status(saga)
    assert view["steps"]
    assert (await status(saga, after_step=view["next_after_step"]))["steps"][0]["step"] == view["next_after_step"] + 1


async def test_asking_after_the_last_step_shows_none() -> None:
    view = await status(saga_of(intended(1), succeeded(1)), after_step=5)
    assert view["steps"] == []
    assert "next_after_step" not in view


async def test_a_forgotten_saga_is_mentioned_with_the_next_reply() -> None:
    """SEMANTICS.md S9.4."""
    view = await status(saga_of(SagaIdled()))
    assert view["items"][0]["kind"] == "idle"
    assert view["items"][0]["item"] == f"{SAGA_ID}.0"
    assert view["next"][0] == "It was idle for long: finish it."
    assert wording.marked(saga_of(SavepointSet(name="here"), SagaIdled()), "here", "").endswith(": finish it.]")
    assert wording.begun(saga_of(intended(1), succeeded(1), SagaIdled()), "").endswith(": finish it.]")


# --- the list ---------------------------------------------------------------------------------------------------------


def row(name: str, conversation: str = "", purpose: str = "") -> SagaRow:
    return SagaRow(
        id=name,
        realm="test",
        caller="",
        conversation=conversation,
        key="",
        purpose=purpose,
        phase="active",
        state="active",
        driver="me",
        busy=False,
        items=0,
        steps=2,
        seq=5,
        opened_at=40.0,
        updated_at=40.0,
    )


async def listed(rows: list[SagaRow], given: RequestParamsMeta | None = None) -> tuple[JsonObject, str]:
    async with Client(scripted(Script(rows=rows)), mode="legacy") as client:
        await client.list_tools()
        result = await client.call_tool("saga_status", {}, meta=given)
    assert len(result.model_dump_json(by_alias=True).encode()) < 20_000
    return result.structured_content, text_of(result)


@pytest.mark.case(72)
async def test_without_an_id_the_open_sagas_are_listed_and_those_of_other_conversations_marked() -> None:
    """SEMANTICS.md S1.4: the server is the memory. The engine puts this conversation's first."""
    rows = [row("sg-mine", "threadId:a", "onboard ACME"), row("sg-new", "threadId:b"), row("sg-none")]
    view, text = await listed(rows, meta(threadId="a"))
    assert view["sagas"] == [
        {
            "saga_id": "sg-mine",
            "state": "active",
            "purpose": "onboard ACME",
            "steps": 2,
            "items": 0,
            "age_s": 60,
        },
        *(
            {"saga_id": name, "state": "active", "steps": 2, "items": 0, "age_s": 60, "other_conversation": True}
            for name in ("sg-new", "sg-none")
        ),
    ]
    assert "saga_commit keeps all" in text


async def test_where_the_conversation_is_unknown_nothing_is_marked() -> None:
    view, _ = await listed([row("sg-1", "threadId:b"), row("sg-2")])
    assert "other_conversation" not in str(view)


async def test_a_long_list_is_cut_and_says_by_how_many() -> None:
    view, _ = await listed([row(f"sg-{number}", purpose="p" * 200) for number in range(100)])
    shown = view["sagas"]
    assert isinstance(shown, list)
    assert 10 < len(shown) < 100
    assert view["sagas_not_shown"] == 100 - len(shown)
    assert "saga-mcp list --open" in str(view["next"])
    few, _ = await listed([row("sg-1")])
    assert "list --open" not in str(few["next"])


async def test_without_any_open_saga_it_says_how_to_open_one() -> None:
    view, _ = await listed([])
    assert view == {"next": ["No saga is open. saga_begin opens one."], "sagas": []}
