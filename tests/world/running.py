"""Processes that tests start: each is over when its block is, and where the block fails one reads what it said."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

BOUND_S = 60.0
_SHOWN = 10_000
"""Characters of a log, from its end."""


class Running:
    """One process, whose stderr is a file."""

    def __init__(self, process: Process, log: Path) -> None:
        assert process.stdout is not None
        self.process = process
        self.log = log
        self._stdout = BufferedByteReceiveStream(process.stdout)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    async def line(self) -> str:
        """The next line that it prints."""
        with anyio.fail_after(BOUND_S):
            try:
                return (await self._stdout.receive_until(b"\n", 1000)).decode()
            except (anyio.EndOfStream, anyio.IncompleteRead):
                raise AssertionError("it printed no line") from None

    async def says(self, what: str) -> None:
        """Return once its log has that."""
        with anyio.fail_after(BOUND_S):
            while what not in self.said:
                assert self.process.returncode is None, f'it ended without "{what}"'
                await anyio.sleep(0.05)

    def stop(self) -> None:
        """Tell it to end."""
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    async def exits(self, within_s: float = BOUND_S) -> int:
        with anyio.fail_after(within_s):
            return await self.process.wait()


@asynccontextmanager
async def running(
    command: Sequence[str], log: Path, *, env: Mapping[str, str], kills: bool = False
) -> AsyncGenerator[Running]:
    """Run a command until the block ends.

    Args:
        command: what to run.
        log: the file at whose end stands what it writes to stderr.
        env: its whole environment.
        kills: it is killed in the end, where it still runs; default: told to end, which it has to do well.
    """
    with log.open("ab") as stderr:
        process = await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=stderr, env=env)
    started = Running(process, log)
    try:
        yield started
        if process.returncode is None and not kills:
            process.terminate()
            code = await started.exits()
            assert code == 0, f"it ended with {code}"
    except Exception as error:
        error.add_note(f"{log.name}:\n{started.said[-_SHOWN:]}")
        raise
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
            await process.aclose()
