"""The process of a stdio upstream: gone when we are, however we end, with everything that it has started.

Beside each upstream runs a keeper (`keeper.py`), which starts it and waits for the end of a pipe whose other end is
ours. When that comes, because we closed it or because SIGKILL closed it for us, the keeper ends the upstream and its
descent: `npx` and `uvx` start the real server as a child of theirs, which a signal to them alone would leave behind.
The process that we see is the keeper: that it has ended, and how, says what became of the rest.
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import structlog
from mcp.client.stdio import get_default_environment

from saga_mcp.tools.streams import Lines
from saga_mcp.tools.upstream.declared import Program
from saga_mcp.tools.upstream.keeper import ALL_ENDED, TERMINATE

_log = structlog.get_logger(__name__)

_KEEPER = Path(__file__).with_name("keeper.py")
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
        """It has ended, though something that it started may hold the pipes open."""
        self.all_ended = False
        """It has ended with everything that it had started, in whatever session. Never where nobody can know."""
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


class _Keeper:
    """Our ends of the pipes to a keeper; there are none on Windows."""

    def __init__(self) -> None:
        self._theirs: list[int] = []
        self._control = self._status = -1
        if sys.platform != "win32":
            control, self._control = os.pipe()
            self._status, status = os.pipe()
            self._theirs = [control, status]

    @property
    def keeps(self) -> bool:
        """Whether there is a keeper."""
        return bool(self._theirs)

    def command(self, program: Program, env: dict[str, str], mark: Path | None) -> list[str]:
        """What is started for a program."""
        if not self.keeps:
            return [program.command, *program.args]
        # Isolated: what the upstream's variables say of Python concerns the upstream.
        python = [sys.executable, "-I", "-S", str(_KEEPER)]
        has_locale = int("LC_CTYPE" in env)
        return [*python, *map(str, (*self._theirs, has_locale, len(_words(program)), mark or ""))]

    @contextlib.contextmanager
    def handed_on(self) -> Generator[tuple[int, ...]]:
        """The keeper's ends, which are its alone when the block ends."""
        try:
            yield tuple(self._theirs)
        finally:
            for descriptor in self._theirs:
                os.close(descriptor)

    async def started(self, program: Program, pid: int) -> int:
        """Return the number of the program's process.

        Args:
            program: Which.
            pid: Of the process that we have started.

        Raises:
            OSError: It cannot be started.
        """
        if self._status < 0:
            return pid
        words = _words(program)
        while words:  # as much as the pipe holds at a time
            await anyio.wait_writable(self._control)
            words = words[os.write(self._control, words[: select.PIPE_BUF]) :]
        await anyio.wait_readable(self._status)
        said = os.read(self._status, _CHUNK_BYTES)
        if not said:
            raise OSError("the process that was to start it has ended")
        what = cast("dict[str, int | str]", json.loads(said))
        if "pid" in what:
            return int(what["pid"])
        raise OSError(what["errno"], what["strerror"], program.command)

    def terminate(self, process: Process) -> None:
        """Ask the program to end."""
        if self._control < 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGTERM)  # on Windows this ends it
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, TERMINATE)

    def end(self) -> None:
        """End the program, and all that it has started; ours are closed then."""
        for descriptor in (self._control, self._status):
            if descriptor >= 0:
                os.close(descriptor)
        self._control = self._status = -1


def _words(program: Program) -> bytes:
    return b"\0".join(map(os.fsencode, (program.command, *program.args)))


@contextlib.asynccontextmanager
async def running(program: Program, name: str, mark: Path | None = None) -> AsyncGenerator[Process]:
    """Start the program; when the block ends it has ended, and everything that it started too.

    Args:
        program: What is started.
        name: What the log calls it.
        mark: Kept locked as long as anything lives of what is started, also where we do not; not on Windows.

    Raises:
        OSError: It cannot be started.
    """
    env = {**get_default_environment(), **program.env}
    keeper = _Keeper()
    try:
        launched: list[tuple[asyncio.SubprocessTransport, Process]] = []
        with keeper.handed_on() as theirs, anyio.CancelScope(shield=True):
            # Not cancelled half-way: then the keeper would be killed, and not what it has just started.
            launched.append(
                await asyncio.get_running_loop().subprocess_exec(
                    Process,
                    *keeper.command(program, env, mark),
                    env=env,
                    cwd=program.cwd,
                    pass_fds=theirs,
                    process_group=0 if keeper.keeps else None,  # what a terminal says to our group is not meant for it
                )
            )
        [(transport, process)] = launched
        process.pid = transport.get_pid()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_log_stderr, process, name)
                try:
                    process.pid = await keeper.started(program, process.pid)
                    _log.info("upstream_started", upstream=name, pid=process.pid)
                    yield process
                finally:
                    with anyio.CancelScope(shield=True):
                        await _stop(process, keeper, name)
                        with anyio.move_on_after(_LAST_WORDS_S):
                            await process.silent.wait()
                    process.all_ended = keeper.keeps and transport.get_returncode() == ALL_ENDED
                    tasks.cancel_scope.cancel()
        finally:
            transport.close()
    finally:
        keeper.end()


async def _stop(process: Process, keeper: _Keeper, name: str) -> None:
    """Close its stdin, ask it to end, and end it, with a short while between."""
    process.input.close()
    if not await _ends(process, _AFTER_STDIN_S):
        keeper.terminate(process)
        if not await _ends(process, _AFTER_TERM_S):
            keeper.end()
            if not await _ends(process, _AFTER_KILL_S):
                _log.error("upstream_does_not_end", upstream=name, pid=process.pid)
    _log.info("upstream_ended", upstream=name, pid=process.pid)


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
