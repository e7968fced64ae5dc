"""Secret arguments, in the product as it is started: nobody is shown one, and what nothing needs is nowhere stored."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.e2e.product import BOUND_S, Product, ServerDied

from saga_mcp.cli import commands

TILL = Path(__file__).with_name("till.py")
CARD = 'tok_4242"visa'
PIN = 977_311


class Till(Product):
    """The product before the till."""

    def configure(self, saga: str = "", tools: str = "") -> None:
        self.config.write_text(
            f"""
[saga]
name = "till"
database = "sqlite:///saga.db"
{saga}

[python.till]
path = '{TILL}:registry'
{tools}
""",
            encoding="utf-8",
        )

    async def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a command in this process: starting one takes most of the time."""
        assert env is None
        out = io.StringIO()

        def run() -> int:
            with redirect_stdout(out), redirect_stderr(out):
                return commands.run([*arguments, "--config", str(self.config)])

        with anyio.fail_after(BOUND_S):
            return await anyio.to_thread.run_sync(run), out.getvalue()

    @property
    def env(self) -> dict[str, str]:
        return {"TILL": str(self.folder / "done.jsonl")}

    @property
    def done(self) -> list[list[Any]]:
        file = self.folder / "done.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []

    def stored(self, secret: str) -> list[str]:
        """The files of the log that hold a text, as it is or as JSON."""
        written = {secret.encode(), json.dumps(secret)[1:-1].encode()}
        files = [file for file in self.folder.rglob("saga.db*") if file.is_file()]
        assert files
        return [file.name for file in files if any(each in file.read_bytes() for each in written)]

    async def shown(self, saga_id: str) -> str:
        """Everything that the commands show of a saga."""
        said = ""
        for command in (
            ("show", saga_id, "--values"),
            ("show", f"{saga_id}.1", "--timeline", "--values", "--diff", "--json"),
            ("export", saga_id, "--values"),
        ):
            _, text = await self.run(*command)
            said += text
        return said


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Till:
    found = Till(tmp_path)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    return found


def holds(text: str) -> bool:
    return any(each in text for each in (CARD, json.dumps(CARD)[1:-1], str(PIN)))


async def test_a_secret_that_nothing_needs_is_nowhere_in_the_log_and_its_call_is_undone(till: Till) -> None:
    async with till.serve() as agent:
        paid = await agent.call("pay", cents=5, card=CARD, pin=PIN)
        assert paid.structured["said"] == f"charged {CARD}"  # its own answer is not touched
        assert not till.stored(CARD)
        assert not till.stored(str(PIN))
        said = json.dumps(await agent.status(paid.saga_id))
        aborted = await agent.call("saga_abort", saga_id=paid.saga_id)
        assert aborted.state == "compensated", aborted.text
        said += aborted.text + await till.shown(paid.saga_id)
        said += agent.log
    assert not holds(said)
    assert '"card": "[secret]"' in said
    assert till.done == [["pay", 5, CARD, PIN], ["pay_back", 5, "p5", ["cents"]]]
    assert not till.stored(CARD)


async def test_a_tool_that_repeats_a_secret_in_its_error_does_not_get_it_into_the_log(till: Till) -> None:
    async with till.serve() as agent:
        failed = await agent.call("pay", cents=-1, card=CARD, pin=PIN)
        assert failed.code == "step_failed"
        said = json.dumps(await agent.status(failed.saga_id)) + await till.shown(failed.saga_id)
    assert "was declined" in said
    assert not holds(said)
    assert not till.stored(CARD)
    assert not till.stored(str(PIN))


@pytest.mark.case(106)
async def test_a_secret_that_the_undo_needs_is_stored_for_it_and_shown_to_nobody(till: Till) -> None:
    async with till.serve() as agent:
        blocked = await agent.call("block", cents=2000, card=CARD)
        assert till.stored(CARD)
        aborted = await agent.call("saga_abort", saga_id=blocked.saga_id)
        status = await agent.until(blocked.saga_id, "needs_attention")
        said = aborted.text + json.dumps([aborted.result, status])
        said += agent.log + await till.shown(blocked.saga_id) + (await till.run("attention"))[1]
    assert ["unblock", CARD] in till.done
    assert "the bank knows no card [secret]" in said
    assert not holds(said)


@pytest.mark.slow
async def test_equal_calls_are_known_by_their_secrets_also_after_a_restart(till: Till) -> None:
    till.configure(saga='on_error = "hold"')
    async with till.serve() as agent:
        saga = await agent.begin()
        first = await agent.call("pay", saga_id=saga, step_key="one", cents=5, card=CARD, pin=PIN)
        assert first.code == ""
        agent.kill()
    async with till.serve() as agent:
        again = await agent.call("pay", saga_id=saga, step_key="one", cents=5, card=CARD, pin=PIN)
        assert (again.code, again.facts["replayed"]) == ("", True)
        assert "[secret: not stored]" in again.text
        other = await agent.call("pay", saga_id=saga, step_key="one", cents=5, card="tok_other", pin=PIN)
        assert other.code == "key_reused"
    assert till.done == [["pay", 5, CARD, PIN]]


async def test_a_call_that_a_person_allows_is_stored_whole_and_sent_with_its_secret(till: Till) -> None:
    async with till.serve() as agent:
        asked = await agent.call("open_door", code=CARD)
        assert asked.code == "approval_needed"
        agent.kill()
    code, question = await till.run("approve", f"{asked.saga_id}.1", "--yes")
    assert code == 0, question
    said = asked.text + question + await till.shown(asked.saga_id)
    assert till.done == [["open_door", CARD]]
    assert not holds(said)


@pytest.mark.slow
async def test_a_call_that_is_sent_until_it_succeeds_is_stored_whole(till: Till) -> None:
    (till.folder / "done.dies").touch()
    async with till.serve() as agent:
        saga = (await agent.call("stamp")).saga_id
        with pytest.raises(ServerDied):
            await agent.call("close_door", saga_id=saga, code=CARD)
    async with till.serve() as agent:
        await agent.at_rest(saga)
        said = await till.shown(saga)
    assert till.done == [["close_door", CARD]] * 2
    assert not holds(said)


async def test_an_audited_read_is_recorded_without_its_secret(till: Till) -> None:
    till.configure(saga="audit_reads = true")
    async with till.serve() as agent:
        saga = await agent.begin()
        await agent.call("look", saga_id=saga, code=CARD)
        await agent.close_stdin()
        await agent.exits(20)
    _, said = await till.run("show", saga, "--timeline", "--values")
    assert "READ_RECORDED" in said
    assert not holds(said)
    assert not till.stored(CARD)


async def test_what_try_shows_of_a_call_is_without_its_secret(till: Till) -> None:
    code, said = await till.run("try", "till.block", json.dumps({"cents": 5, "card": CARD}))
    assert code == 0, said
    assert "[secret]" in said
    assert not holds(said)
