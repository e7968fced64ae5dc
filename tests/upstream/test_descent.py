"""What a started process leaves behind ends with it; where it may not, the end of the process is not its call's."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from mcp.client.stdio import get_default_environment
from tests.edge.raw_stdio_client import tool_call
from tests.upstream.desk import LEDGER, Agent, Desk, eventually, gone, raw

from saga_mcp.tools.upstream.declared import Program
from saga_mcp.tools.upstream.elsewhere import leads_away
from saga_mcp.tools.upstream.process import running

pytestmark = [
    pytest.mark.timeout(180),  # several starts one after the other
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody knows what a process has left behind"),
]

MANY = 1100
"""More descriptors than `select` takes."""
BLIND = """
[tools."ledger.add"]
timeout_s = 1
hard_deadline_s = 2
undo = { tool = "ledger.remove", args = { id = "${args.id}" }, safe_if_absent = true, idempotent = true }
"""
FORKED = """
import os, signal, sys
if os.fork():
    signal.pause()
os.setsid()
if os.fork():
    os._exit(0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""A launcher that waits, and a server in a session of its own whose parent has ended."""
HELD = """
import os, sys
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    open(os.environ["LEDGER"] + ".holds", "a").write(f"{os.getpid()} ")
    os.execvp("sleep", ["sleep", "1000"])
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""A server whose daemon holds its pipes open."""


def launch(desk: Desk, how: str) -> None:
    """Start the ledger through a launcher."""
    file = desk.folder / "launcher.py"
    file.write_text(how, encoding="utf-8")
    text = desk.config.read_text(encoding="utf-8")
    desk.config.write_text(text.replace("args = [", f"args = [{json.dumps(str(file))}, ", 1), encoding="utf-8")


def holders(desk: Desk) -> list[int]:
    file = desk.world.with_name(f"{desk.world.name}.holds")
    return [int(pid) for pid in file.read_text(encoding="utf-8").split()] if file.exists() else []


def launchers(desk: Desk) -> list[int]:
    """The processes of the launcher itself."""
    file = str(desk.folder / "launcher.py")
    found = (each for each in psutil.process_iter(["cmdline"]) if file in (each.info["cmdline"] or []))
    return [each.pid for each in found]


async def lose(desk: Desk, agent: Agent, kill: int | None = None) -> str:
    """Have a call hang, kill a process, and let the call go on if it can; the saga's id."""
    answers: list[str] = []

    async def add() -> None:
        answers.append((await agent.call("ledger_add", item="a", id=7, mode="hang_before")).facts["id"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(add)
        await eventually(lambda: desk.called("add") == 1)
        os.kill(kill or desk.pids[-1], signal.SIGKILL)
    return answers[0]


@pytest.mark.slow
async def test_a_call_has_ended_only_when_nothing_of_the_launchers_descent_is_left(desk: Desk) -> None:
    desk.configure(BLIND)
    launch(desk, FORKED)
    async with desk.serve() as agent:
        await agent.until_up()
        (launcher,) = launchers(desk)
        server = desk.pids[-1]
        saga_id = await lose(desk, agent, launcher)
        await agent.until(saga_id, "compensated")
        assert gone(server)
        desk.switch("go")
        await agent.until_up()
    assert desk.did == ["remove 7"]


@pytest.mark.slow
async def test_a_server_in_a_session_of_its_own_does_not_outlive_us(desk: Desk) -> None:
    desk.configure(BLIND)
    launch(desk, FORKED)
    async with raw(desk) as client:
        await client.send(tool_call(1, "ledger_add", item="a", id=7, mode="hang_before"))
        await eventually(lambda: desk.called("add") == 1)
        os.kill(client.process.pid, signal.SIGKILL)
        await eventually(lambda: gone(desk.pids[0]))
    desk.switch("go")
    async with raw(desk):
        await eventually(lambda: desk.did == ["remove 7"])


@pytest.mark.slow
async def test_a_keeper_that_is_killed_proves_nothing(desk: Desk) -> None:
    desk.configure(BLIND)
    launch(desk, FORKED)
    async with desk.serve() as agent:
        await agent.until_up()
        (launcher,) = launchers(desk)
        server = desk.pids[-1]
        saga_id = await lose(desk, agent, psutil.Process(launcher).ppid())
        await agent.until_up()
        waiting = await agent.until(saga_id, "needs_attention")
        os.kill(launcher, signal.SIGKILL)
        desk.switch("go")
        await eventually(lambda: gone(server))
    assert [item["kind"] for item in waiting["items"]] == ["in_doubt"]
    assert desk.did == ["add a"]


@pytest.mark.slow
async def test_an_upstream_whose_daemon_holds_its_pipes_is_started_again(desk: Desk) -> None:
    desk.configure(BLIND)
    launch(desk, HELD)
    async with desk.serve() as agent:
        await agent.until_up()
        os.kill(desk.pids[-1], signal.SIGKILL)
        await eventually(lambda: len(desk.pids) == 2)
        await agent.until_up()
        assert (await agent.call("ledger_add", item="a", id=7)).facts["state"] == "active"
        await eventually(lambda: gone(holders(desk)[0]))
    await eventually(lambda: all(map(gone, holders(desk))))
    assert desk.did == ["add a"]


@pytest.mark.slow
@pytest.mark.parametrize("why", ["docker", "shared"])
async def test_the_end_of_what_only_leads_to_a_server_is_not_the_end_of_its_call(desk: Desk, why: str) -> None:
    desk.configure(BLIND, upstream='scope = "shared"' if why == "shared" else "")
    if why == "docker":
        client = desk.folder / "docker"
        client.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
        client.chmod(0o700)
        text = desk.config.read_text(encoding="utf-8")
        desk.config.write_text(text.replace(json.dumps(sys.executable), json.dumps(str(client)), 1), encoding="utf-8")
    async with desk.serve() as agent:
        await agent.until_up()
        saga_id = await lose(desk, agent)
        await agent.until_up()
        waiting = await agent.until(saga_id, "needs_attention")
    assert [item["kind"] for item in waiting["items"]] == ["in_doubt"]
    assert desk.called("remove") == 0


async def test_nothing_of_the_keeper_shows_to_the_upstream(desk: Desk) -> None:
    told = desk.folder / "told.json"
    launch(
        desk,
        f"""
import json, os, pathlib, sys
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
environ = pathlib.Path("/proc/self/environ").read_text().split(chr(0))
said = {{"ignored": int(status["SigIgn"], 16), "cwd": os.getcwd()}}
said["fds"] = [int(fd) for fd in os.listdir("/proc/self/fd")]
said["env"] = [each.split("=")[0] for each in environ if each]
pathlib.Path({str(told)!r}).write_text(json.dumps(said))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
""",
    )
    async with desk.serve() as agent:
        await agent.until_up()
    said = json.loads(told.read_text(encoding="utf-8"))
    assert Path(said["cwd"]) == desk.folder.resolve()
    assert max(said["fds"]) <= 3  # 0 to 2, and the one that lists them
    assert not said["ignored"] & 1 << (signal.SIGTERM - 1)
    assert {*said["env"]} <= {*get_default_environment(), "LEDGER"}


async def test_the_keeper_keeps_whatever_the_numbers_of_its_pipes_are(tmp_path: Path) -> None:
    """They are ours, and a server with many connections has many before them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < MANY * 2:
        pytest.skip("so many files may not be open here")
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (MANY * 2, hard))
    try:
        taken += (os.open(os.devnull, os.O_RDONLY) for _ in range(MANY))
        sleeper = Program(command=sys.executable, args=("-c", "import time; time.sleep(1000)"), cwd=tmp_path)
        async with running(sleeper, "sleeper") as process:
            pid = process.pid
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    left = not gone(pid)
    if left:
        os.kill(pid, signal.SIGKILL)
    assert not left
    assert process.all_ended


@pytest.mark.parametrize(
    ("words", "leads"),
    [
        ("docker run -i --rm image", True),
        ("/usr/local/bin/podman exec -i box server", True),
        ("C:\\Windows\\System32\\wsl.exe npx server", True),
        ("npx -y mcp-remote@latest https://example.org/mcp", True),
        ("node /opt/node_modules/mcp-remote/dist/proxy.js", True),
        ("uvx mcp-proxy http://example.org", True),
        ("sudo -n docker exec -i box server", True),
        ("ssh host server", True),
        ("npx -y @modelcontextprotocol/server-filesystem /home/ada/docker", False),
        ("python -m mcp_server_git --repository /work/ssh", False),
        ("my-server --backend docker", False),
        ("uvx mcp-server-docker", False),
    ],
)
def test_what_leads_to_a_server_elsewhere_is_known_by_its_name(words: str, leads: bool) -> None:  # noqa: FBT001 - a case
    command, *args = words.split()
    assert leads_away(Program(command=command, args=tuple(args), cwd=Path())) is leads


def test_what_a_shell_starts_is_looked_for_in_its_line() -> None:
    line = "exec docker run -i image"
    assert leads_away(Program(command="sh", args=("-c", line), cwd=Path()))


def test_the_ledger_is_no_launcher() -> None:
    assert not leads_away(Program(command=sys.executable, args=(str(LEDGER),), cwd=Path()))
