"""The process of a stdio upstream: started in a group of its own, and gone when we are, however we end.

Beside each upstream runs a keeper, a shell that leads the group and waits for the end of a pipe whose other end is
ours. When that comes, because we closed it or because SIGKILL closed it for us, the keeper kills the whole group:
`npx` and `uvx` start the real server as a child of theirs, which a signal to them alone would leave behind. As long as
the keeper lives, nobody else can get the group's number.
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from functools import partial

import anyio
import anyio.to_thread
import structlog
from mcp.client.stdio import get_default_environment

from saga_mcp.tools.streams import Lines
from saga_mcp.tools.upstream.declared import Program

_log = structlog.get_logger(__name__)

_KEEPER = ("/bin/sh", "-c", 'trap "" HUP INT TERM; read -r _; kill -KILL 0')
_BUFFER_BYTES = 1 << 20
_AFTER_STDIN_S = 0.5
_AFTER_TERM_S = 0.5
_AFTER_KILL_S = 5.0
_LAST_WORDS_S = 1.0
"""How long what it said on stderr is read after its end, where somebody still holds that open."""
_CHUNK_BYTES = 1 << 16
_LONGEST_LINE = 2000
"""Of what an upstream says on stderr."""


class Process(asyncio.subprocess.SubprocessStreamProtocol):
    """A running upstream, with its pipes."""

    pid: int

    def __init__(self) -> None:
        super().__init__(limit=_BUFFER_BYTES, loop=asyncio.get_running_loop())
        self.exited = anyio.Event()
        """It has ended, though a child of its own may hold the pipes open."""
        self.said = ""
        """The last line on stderr, which is where programs say why they do not start."""
        self.silent = anyio.Event()
        """There is nothing more on stderr."""

    def process_exited(self) -> None:
        """See `asyncio.SubprocessProtocol`."""
        super().process_exited()
        self.exited.set()

    @property
    def output(self) -> asyncio.StreamReader:
        """Its stdout."""
        assert self.stdout is not None  # noqa: S101 - it was started with pipes
        return self.stdout

    @property
    def input(self) -> asyncio.StreamWriter:
        """Its stdin."""
        assert self.stdin is not None  # noqa: S101 - see above
        return self.stdin


@contextlib.asynccontextmanager
async def running(program: Program, name: str) -> AsyncGenerator[Process]:
    """Start the program; when the block ends it has ended, and everything that it started in its group too.

    Args:
        program: What is started.
        name: What the log calls it.

    Raises:
        OSError: It cannot be started.
    """
    keeper = _keeper()
    try:
        transport, process = await asyncio.get_running_loop().subprocess_exec(
            Process,
            program.command,
            *program.args,
            env={**get_default_environment(), **program.env},
            cwd=program.cwd,
            process_group=None if keeper is None else keeper.pid,
        )
        process.pid = transport.get_pid()
        _log.info("upstream_started", upstream=name, pid=process.pid)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_log_stderr, process, name)
                tasks.start_soon(_end_of_group, process, keeper)
                try:
                    yield process
                finally:
                    with anyio.CancelScope(shield=True):
                        await _stop(process, keeper, name)
                        with anyio.move_on_after(_LAST_WORDS_S):
                            await process.silent.wait()
                    tasks.cancel_scope.cancel()
        finally:
            transport.close()
    finally:
        if keeper is not None:
            _release(keeper)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(keeper.wait)


def _keeper() -> subprocess.Popen[bytes] | None:
    if sys.platform == "win32":
        return None
    null = subprocess.DEVNULL
    # In our session, or its group could not be joined; in a group of its own, or our end would be its end.
    return subprocess.Popen(_KEEPER, stdin=subprocess.PIPE, stdout=null, stderr=null, process_group=0)  # noqa: S603 - a constant


def _release(keeper: subprocess.Popen[bytes]) -> None:
    """Let the keeper kill its group, itself included."""
    if keeper.stdin is not None:
        keeper.stdin.close()


async def _end_of_group(process: Process, keeper: subprocess.Popen[bytes] | None) -> None:
    """End what the program started once it has ended: its children hold its pipes open, and serve nobody."""
    await process.exited.wait()
    if keeper is not None:
        _release(keeper)


async def _stop(process: Process, keeper: subprocess.Popen[bytes] | None, name: str) -> None:
    """Close its stdin, ask it to end, and end it, with a short while between."""
    process.input.close()
    if not await _ends(process, _AFTER_STDIN_S):
        if keeper is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(keeper.pid, signal.SIGTERM)
        if not await _ends(process, _AFTER_TERM_S):
            _kill(process, keeper)
            if not await _ends(process, _AFTER_KILL_S):
                _log.error("upstream_does_not_end", upstream=name, pid=process.pid)
    _log.info("upstream_ended", upstream=name, pid=process.pid)


def _kill(process: Process, keeper: subprocess.Popen[bytes] | None) -> None:
    if keeper is not None:
        _release(keeper)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGTERM)  # on Windows this ends it


async def _ends(process: Process, within_s: float) -> bool:
    with anyio.move_on_after(within_s):
        await process.exited.wait()
    return process.exited.is_set()


async def _log_stderr(process: Process, name: str) -> None:
    assert process.stderr is not None  # noqa: S101 - it was started with pipes
    lines = Lines(partial(process.stderr.read, _CHUNK_BYTES))
    try:
        while (line := await lines.next()) is not None:
            if text := line.decode("utf-8", "replace").strip()[:_LONGEST_LINE]:
                process.said = text
                _log.info("upstream_stderr", upstream=name, line=text)
    finally:
        process.silent.set()
