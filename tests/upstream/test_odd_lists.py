"""A server whose list, or whose start, is not as it should be: what can be had of it stands, the rest has a reason."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.upstream.desk import BOUND_S, Desk

pytestmark = pytest.mark.timeout(180)  # several starts one after the other

STUB = Path(__file__).parents[1] / "adopting" / "stub_server.py"
OBJECT = {"type": "object"}
ODD = {
    "good": OBJECT,
    "odd": {"inputSchema": OBJECT, "outputSchema": "string"},
    "bare": {"inputSchema": None},
    "last": OBJECT,
}
TOOLS = '[tools."stub.good"]\nundo = { leave = "it" }\n[tools."stub.odd"]\nundo = { leave = "it" }\n'

Stub = Callable[..., None]


@pytest.fixture
def stub(desk: Desk) -> Stub:
    """Puts a server that is whatever it is told behind saga-mcp."""

    def configured(**spec: object) -> None:
        whole = {"name": "stub", "version": "1", "log": str(desk.folder / "stub.log"), "tools": ODD, **spec}
        args = json.dumps([str(STUB), json.dumps(whole)])
        desk.config.write_text(
            f'[saga]\nname = "desk"\ndatabase = "sqlite:///saga.db"\n'
            f'[upstreams.stub]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nread_only = ["last"]\n{TOOLS}',
            encoding="utf-8",
        )

    return configured


def calls(desk: Desk) -> list[str]:
    file = desk.folder / "stub.log"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line for line in lines if line.startswith("called")]


async def test_a_tool_that_cannot_be_read_does_not_take_the_others_down(desk: Desk, stub: Stub) -> None:
    stub()
    async with desk.serve() as agent:
        await agent.until_up("stub_last")
        done = await agent.call("stub_good")
        refused = await agent.call("stub_odd", saga_id=done.facts["id"])
    assert done.facts["state"] == "active"
    assert "its tool odd cannot be read: outputSchema: " in refused.text
    assert calls(desk) == ["called last", "called good"]


@pytest.mark.parametrize("command", ["doctor", "check"])
async def test_commands_say_which_tools_are_left_out_and_why(desk: Desk, stub: Stub, command: str) -> None:
    stub()
    _, said = await desk.run(command)
    assert "its tool odd cannot be read and is left out: outputSchema: " in said
    assert "its tool bare cannot be read and is left out: inputSchema: " in said
    assert "has no tool odd" not in said
    assert "did not come up" not in said


@pytest.mark.slow
async def test_who_asks_reads_why_a_server_does_not_start(desk: Desk, stub: Stub) -> None:
    stub(say="boom: no token", exit=3)
    async with desk.serve() as agent:
        answers = [""]
        with anyio.fail_after(BOUND_S):
            while "boom: no token" not in answers[-1]:
                answers.append((await agent.call("stub_good")).text)
    _, said = await desk.run("doctor")
    assert "boom: no token" in said
    assert not [text for text in (*answers, said) if "TaskGroup" in text or "ExceptionGroup" in text]


async def test_a_call_whose_answer_cannot_be_read_is_in_doubt_and_no_empty_success(desk: Desk, stub: Stub) -> None:
    answers = desk.folder / "answers.json"
    nope, fine = {"content": "nope"}, {"content": [{"type": "text", "text": "fine"}]}
    answers.write_text(json.dumps({"good": [nope], "last": [fine, nope]}), encoding="utf-8")
    stub(answers=str(answers))
    async with desk.serve() as agent:
        await agent.until_up("stub_last")
        done = await agent.call("stub_good")
        assert done.is_error
        assert "cannot be read (content is no list)" in done.text
        refused = await agent.call("saga_commit", saga_id=done.facts["id"])
        assert refused.is_error
        read = await agent.call("stub_last")
        assert read.is_error
        assert "cannot be read (content is no list)" in read.text
    assert "called good" in calls(desk)
    _, said = await desk.run("show", done.facts["id"], "--timeline")
    assert "STEP_FELL_IN_DOUBT" in said
    assert "STEP_SUCCEEDED" not in said
