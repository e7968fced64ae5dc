"""Whose words an undo is built from and judged by: the call's own answer, the undo's own errors (S6.1, S6.5)."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Literal, cast

import pytest
from tests.tools.shop import facts
from tests.upstream.desk import LEDGER, NOTES, Desk, eventually

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.looks import done_already
from saga_mcp.tools.pair import UndoEntry
from saga_mcp.tools.port import ReadAnswer, ReadFailed, UndoContext, UndoMissed
from saga_mcp.tools.unsent import UpstreamDown
from saga_mcp.tools.upstream.adapter import UpstreamReader, UpstreamUndo
from saga_mcp.tools.upstream.answers import Answers
from saga_mcp.tools.upstream.connection import Answered, Broken, Declined, Heard, NotSent, Upstream
from saga_mcp.tools.upstream.known import KnownTool

BY_TEXT = """
[tools."ledger.add"]
settle_s = 0
undo = { tool = "ledger.remove", args = { id = "${int(regex(text, '([0-9]+)'))}" } }
probe = { tool = "ledger.look", landed = "${now.text.contains('mine')}", result = { found = true } }
"""
SAID = """
[tools."ledger.say"]
settle_s = 0
undo = { tool = "ledger.add", args = { item = "took back: ${text}" } }
"""
GONE = """
[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${result.id}" }
idempotent = true
done_when = "${now.error.contains('not found')}"
"""
READS = """
[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${result.id + read.result.n}" }
read = { tool = "ledger.look", args = { mode = "fail_before" } }
done_when = "${now.error.contains('refused')}"
retry = { attempts = 1 }
"""
NOT_FOUND = "if test -e gone; then echo 'error: context prod not found' >&2; touch tried; exit 1; fi; exec "
ENDS_IT = """
    import json, os, signal, time
    folder = FILE.parent
    (folder / "gone").touch()
    started = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    os.kill([line["pid"] for line in started if line["do"] == "started"][-1], signal.SIGKILL)
    end = time.monotonic() + 20
    while not (folder / "tried").exists() and time.monotonic() < end:
        time.sleep(0.02)
"""
NEVER = "${false}"
CONTEXT = UndoContext(step=facts({"id": 1}), undo_key="u", cause="agent")
ABSENT: JsonObject = {"content": [{"type": "text", "text": '{"error": "not found"}'}]}
FOUND_NONE: JsonObject = {"content": [{"type": "text", "text": "not found"}], "isError": True}


@pytest.mark.slow
async def test_what_a_probe_said_is_not_what_the_call_answered(desk: Desk) -> None:
    desk.configure(BY_TEXT)
    async with desk.serve() as agent:
        await agent.until_up()
        other = await agent.call("ledger_add", item="somebody else's", id=1)
        await agent.call("saga_commit", saga_id=other.facts["id"])
        lost = await agent.call("ledger_add", item="mine", id=2, mode="die_after")
        await agent.until_up()
        await agent.call("saga_abort", saga_id=lost.facts["id"])
        status = await agent.until(lost.facts["id"], "needs_attention")
    assert [item["kind"] for item in status["items"]] == ["cannot_build"]
    assert desk.called("remove") == 0


@pytest.mark.slow
async def test_a_person_who_knows_the_result_does_not_know_what_the_call_answered(desk: Desk) -> None:
    desk.configure(SAID)
    async with desk.serve() as agent:
        await agent.until_up()
        lost = await agent.call("ledger_say", text="hello", mode="die_after")
        saga_id = lost.facts["id"]
        await agent.until(saga_id, "needs_attention")
        code, said = await desk.run("resolve", f"{saga_id}.1", "--landed", "--result", '{"ok": true}', "--yes")
        assert (code, "Recorded" in said) == (1, True), said
        status = await agent.until(saga_id, "needs_attention")
    assert [item["kind"] for item in status["items"]] == ["cannot_build"]
    assert desk.called("add") == 0


@pytest.mark.slow
async def test_what_is_said_of_an_upstream_that_is_down_is_not_what_its_undo_says(desk: Desk) -> None:
    desk.configure(GONE)
    run = f"{NOT_FOUND} {shlex.quote(sys.executable)} {shlex.quote(str(LEDGER))}"
    config = desk.config.read_text(encoding="utf-8")
    config = config.replace(f"command = {json.dumps(sys.executable)}", 'command = "/bin/sh"')
    config = config.replace(f"args = [{json.dumps(str(LEDGER))}]", f"args = {json.dumps(['-c', run])}")
    desk.config.write_text(config, encoding="utf-8")
    undo = '    write(f"unnote {text}")\n'
    (desk.folder / "notes.py").write_text(NOTES.replace(undo, undo + ENDS_IT), encoding="utf-8")
    async with desk.serve() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=5)
        await agent.call("note", saga_id=added.facts["id"], text="x")
        await agent.call("saga_abort", saga_id=added.facts["id"])
        await eventually((desk.folder / "tried").exists)
        (desk.folder / "gone").unlink()
        await agent.until(added.facts["id"], "compensated")
    assert desk.did == ["add a", "remove 5"]


async def test_what_a_read_before_an_undo_says_is_not_what_the_undo_says(desk: Desk) -> None:
    desk.configure(READS)
    async with desk.serve() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=5)
        await agent.call("saga_abort", saga_id=added.facts["id"])
        status = await agent.until(added.facts["id"], "needs_attention")
    assert [item["kind"] for item in status["items"]] == ["dead_letter"]
    assert desk.called("remove") == 0


class Says:
    """An upstream of which this is heard."""

    name = "ledger"

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.tools = {"remove": KnownTool({"name": "remove"})}

    async def ready(self, _within_s: float) -> None:
        if isinstance(self.heard, NotSent) and self.heard.reason == "down":
            raise UpstreamDown(self.name, "it has ended: not found")

    async def call(self, *_args: object, **_more: object) -> Heard:
        return self.heard


@pytest.mark.parametrize(
    ("heard", "failed_when", "done"),
    [
        (Answered(FOUND_NONE), NEVER, True),
        (Declined(-32602, "not found"), NEVER, True),
        (Answered({"content": [{"type": "text", "text": "not found"}]}), "${result.not_found == 1}", False),
        (NotSent("down"), NEVER, False),
        (NotSent("ledger: HTTP 404 not found"), NEVER, False),
        (Broken("ledger: HTTP 404 in place of an answer: not found", end_known=False), NEVER, False),
    ],
    ids=["answered", "declined", "undecided", "down", "not sent", "broken"],
)
async def test_only_what_an_undo_itself_answers_says_that_it_was_done_before(
    heard: Heard, failed_when: str, *, done: bool
) -> None:
    answers = Answers.of(AnswerRules(failed_when=failed_when))
    undo = UpstreamUndo(upstream=cast("Upstream", Says(heard)), tool="remove", answers=answers)
    missed = await undo.undo({}, CONTEXT)
    assert isinstance(missed, UndoMissed)
    entry = UndoEntry(tool="ledger.remove", done_when="${(now.error + now.text).contains('not')}")
    assert done_already(entry, missed, CONTEXT) is done


@pytest.mark.parametrize("error_means", ["no_effect", "unknown"])
async def test_what_failed_by_its_own_words_is_an_answer_of_a_read(
    error_means: Literal["no_effect", "unknown"],
) -> None:
    answers = Answers.of(AnswerRules(failed_when="${has(result.error)}", error_means=error_means))
    reader = UpstreamReader(upstream=cast("Upstream", Says(Answered(ABSENT))), tool="look", answers=answers)
    read = await reader.read({}, CONTEXT.step)
    assert isinstance(read, ReadAnswer)
    assert (read.is_error, read.error) == (True, '{"error": "not found"}')


async def test_a_read_of_which_nobody_can_tell_whether_it_failed_says_nothing() -> None:
    answers = Answers.of(AnswerRules(failed_when="${result.failed}"))
    reader = UpstreamReader(upstream=cast("Upstream", Says(Answered(ABSENT))), tool="look", answers=answers)
    assert isinstance(await reader.read({}, CONTEXT.step), ReadFailed)
