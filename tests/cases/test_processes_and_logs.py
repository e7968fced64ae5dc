"""Other processes, other clocks, damaged files and curious readers: what a server's surroundings may do to it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from tests.e2e.product import COMMAND, Product
from tests.world.server import eventually

from saga_mcp.log.sql.tables import EPOCH

SHIFTED = "import time; real = time.time; time.time = lambda: real() + {hours} * 3600.0"
COUNTING_SCANS = """
from pathlib import Path
from saga_mcp.log.sql import SqlSagaLog
def busy_sagas(self, realm, real=SqlSagaLog.busy_sagas):
    with Path({file!r}).open("ab") as file:
        file.write(b".")
    return real(self, realm)
SqlSagaLog.busy_sagas = busy_sagas
"""
"""Each scan for what dead processes left begins with such a read."""
JUMPING = """
import itertools, time
real, turn = time.time, itertools.count()
time.time = lambda: real() + 3600.0 * (-1) ** next(turn)
"""


@pytest.mark.slow
@pytest.mark.case(31)
@pytest.mark.parametrize("hours", [1, -1])
async def test_a_process_whose_clock_is_wrong_takes_nothing_from_a_living_one(product: Product, hours: int) -> None:
    product.world.plan(release=["hang_before"])
    async with product.serve() as one:
        running, undoing = await one.begin(), await one.begin()
        await one.call("reserve", item="a", saga_id=undoing)
        abort = await one.ask("saga_abort", saga_id=undoing)
        step = await one.ask("reserve", item="b", mode="hang_before", saga_id=running)
        await eventually(lambda: len(product.world.sent()) == 3)
        scans = product.folder / "scans"
        first = SHIFTED.format(hours=hours) + COUNTING_SCANS.format(file=str(scans))
        async with product.serve(first=first) as two:
            await two.call("reserve", item="c")
            await eventually(lambda: scans.stat().st_size >= 3)  # so two of them are over
            assert [entry["state"] for entry in (await two.status(running))["steps"]] == ["intended"]
            assert (await two.status(undoing))["state"] == "compensating"
            product.world.go()
            assert not (await one.reply_to(step)).is_error
            assert (await one.reply_to(abort)).state == "compensated"
    assert len({line.pid for line in product.world.lines if line.args["item"] in {"a", "b"}}) == 1
    assert len(product.world.sent("release")) == 1


@pytest.mark.slow
@pytest.mark.case(31)
async def test_a_wall_clock_that_jumps_changes_no_wait(product: Product) -> None:
    """Back and forth by two hours, each time that somebody looks at it."""
    product.world.plan(release=["err_before", "err_before", "ok"])
    async with product.serve(first=JUMPING, env={"LEDGER_TIMEOUT_S": "0.2"}) as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        assert (await agent.call("charge", cents=5, mode="err_after", saga_id=saga_id)).code == "outcome_unknown"
        assert (await agent.call("reserve", item="b", mode="hang_after", saga_id=saga_id)).code == "outcome_unknown"
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.standing == []
    assert len(product.world.sent("release")) == 4


HOST = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
                   b'"capabilities":{},"clientInfo":{"name":"host","version":"1"}}}\\n')
server.stdin.flush()
server.stdout.readline()
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.case(99)
async def test_a_server_does_not_outlive_a_host_that_was_killed(product: Product) -> None:
    command = [sys.executable, "-c", HOST, *COMMAND, "serve", "--config", str(product.config)]
    async with await anyio.open_process(command, env={**os.environ, **product.world.env}, stderr=None) as host:
        assert host.stdout is not None
        with anyio.fail_after(15):
            server = psutil.Process(int(await host.stdout.receive()))
            children = server.children(recursive=True)
            os.kill(host.pid, signal.SIGKILL)
            while server.is_running() and server.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.02)
        assert not any(child.is_running() for child in children)


@pytest.mark.slow
@pytest.mark.case(108)
@pytest.mark.parametrize("content", [b"this is not a database" * 500, b"SQLite format 3\0" + b"\xff" * 9000])
async def test_a_damaged_log_is_told_and_kept_and_nothing_is_sent(product: Product, content: bytes) -> None:
    log = product.folder / "saga.db"
    log.write_bytes(content)
    async with product.serve() as agent:
        for tool, arguments in (("reserve", {"item": "a"}), ("saga_begin", {}), ("saga_status", {})):
            refused = await agent.call(tool, **arguments)
            assert (refused.is_error, refused.code) == (True, "log_unavailable")
            assert "damaged" in refused.text
            assert str(log) in refused.text
        assert not (await agent.call("balance")).is_error
    assert log.read_bytes() == content
    assert product.world.sent("reserve") == []


@pytest.mark.slow
@pytest.mark.case(97)
async def test_a_log_of_a_newer_version_is_refused_in_one_line_and_left_alone(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = (await agent.call("reserve", item="a")).saga_id
    _mark_as_written_by(product.folder / "saga.db", EPOCH + 1)
    async with product.serve() as agent:
        refused = await agent.call("saga_abort", saga_id=saga_id)
        assert (refused.is_error, refused.code) == (True, "log_unavailable")
        assert "newer saga-mcp" in refused.text
        assert "\n" not in refused.text
    code, output = await product.run("abort", saga_id, "--yes")
    assert code == 1
    assert "newer saga-mcp" in output
    _mark_as_written_by(product.folder / "saga.db", EPOCH)
    async with product.serve() as agent:
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"


def _mark_as_written_by(file: Path, epoch: int) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE saga_log_meta SET epoch = ?", (epoch,))


SENTINEL = "s3ntinel"
VAULT = '''
from saga_tools import NoEffect, Retry, ToolRegistry, Undo

registry = ToolRegistry()


@registry.tool
def store(password: str, headers: dict[str, str], url: str, fail: bool = False) -> dict[str, str]:
    """Store something."""
    if fail:
        raise RuntimeError(f"cannot reach {url}")
    return {"token": password}


@registry.undoes(store, retry=Retry(attempts=2, first_delay_s=0, max_delay_s=0))
def remove(password: str, undo: Undo[dict[str, str]]) -> None:
    if undo.result is not None:
        raise NoEffect("the vault is closed")
'''


@pytest.mark.slow
@pytest.mark.case(106)
async def test_argument_values_reach_no_log_and_no_view(product: Product) -> None:
    """Where the server says everything it can say, a step fails, and an undo fails for good.

    What a tool's error quotes is shown with the step that failed (an agent that only sees "aborted" repeats its
    mistake), and nowhere else.
    """
    (product.folder / "vault.py").write_text(VAULT, encoding="utf-8")
    product.configure(tools='[python.vault]\npath = "vault.py:registry"')
    given = {
        "password": SENTINEL,
        "headers": {"Authorization": f"Bearer {SENTINEL}"},
        "url": f"https://x?key={SENTINEL}",
    }
    views: list[str] = []
    async with product.serve("--log-level", "debug") as agent:
        saga_id = await agent.begin()
        await agent.call("store", saga_id=saga_id, **given)
        assert (await agent.call("saga_abort", saga_id=saga_id)).code == "needs_person"
        failed = await agent.call("store", fail=True, **given)
        misfit = await agent.call("store", password=SENTINEL, headers=SENTINEL, url={SENTINEL: SENTINEL})
        assert misfit.code == "invalid_arguments"
        seen = [
            misfit,
            await agent.call("store", saga_id=saga_id, **given),
            await agent.call("saga_status", saga_id=saga_id),
            await agent.call("saga_status"),
        ]
        views += [str(reply.message) for reply in seen]
        await agent.at_rest(failed.saga_id)
        await agent.close_stdin()
        assert await agent.exits(12) == 0
        await agent.log_ended.wait()
        views.append(agent.log)
        assert "input_ended" in agent.log
    for command in (
        ["list"],
        ["show", saga_id],
        ["show", saga_id, "--timeline"],
        ["attention"],
        ["export", saga_id],
        ["export", failed.saga_id],
        ["doctor"],
    ):
        code, output = await product.run(*command)
        assert code in {0, 1}, output
        views.append(output)
    assert [view for view in views if SENTINEL in view] == []
    assert SENTINEL in (await product.run("show", saga_id, "--values"))[1]
    assert (product.folder / "saga.db").stat().st_mode & 0o777 == 0o600
