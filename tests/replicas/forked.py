"""`saga-mcp` in processes of their own, forked where all is imported already: the imports are most of what it costs.

Nothing else differs from a process that was started by its name: it runs `main` with a command line and an
environment, its output goes where it is told, and it can be killed, stopped and woken.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import anyio

from saga_mcp.cli import main

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "tests.replicas.forked",
        "saga_mcp.app",
        "saga_mcp.cli.commands",
        "saga_mcp.cli.act",
        "saga_mcp.cli.serve_http",
        "saga_mcp.log.sql.postgres.database",
    ]
)
BOUND_S = 90.0


def _run(arguments: tuple[str, ...], env: Mapping[str, str], out: str, errors: str, first: str) -> None:
    os.environ.update(env)
    sys.argv = ["saga-mcp", *arguments]
    for path, descriptor in ((out, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), descriptor)
    exec(first, {})  # noqa: S102 - a test's own
    main()


class Forked:
    """One process of it."""

    def __init__(
        self, *arguments: str, env: Mapping[str, str], out: Path, errors: Path | None = None, first: str = ""
    ) -> None:
        """Start it, with its output at the end of these files. `first`: Python that runs in it before all else."""
        files = (out, errors or out)
        for file in files:
            file.touch()
        self._out = out
        self._process = _FORKS.Process(target=_run, args=(arguments, env, *map(str, files), first), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None: it runs."""
        return self._process.exitcode

    def send(self, what: signal.Signals) -> None:
        if self.code is None:
            os.kill(self.pid, what)

    async def wait(self, within_s: float | None = None) -> int:
        with anyio.fail_after(within_s):
            while (code := self.code) is None:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.02)
        return code

    async def said(self, line_of: str) -> str:
        """The first line that it prints with this in it."""
        with anyio.fail_after(BOUND_S):
            while True:
                for line in self._out.read_text(encoding="utf-8").splitlines(keepends=True):
                    if line_of in line and line.endswith("\n"):
                        return line
                assert self.code is None, f"{self._out} says why it ended with {self.code}"
                await anyio.sleep(0.02)

    def end(self) -> None:
        """Kill it, if it runs."""
        if self.code is None:
            self._process.kill()
        self._process.join()
        self._process.close()


def _run_each(asked: Connection, env: Mapping[str, str], out: str) -> None:
    os.environ.update(env)
    for descriptor in (1, 2):
        os.dup2(os.open(out, os.O_WRONLY | os.O_APPEND), descriptor)
    while arguments := asked.recv():
        Path(out).write_bytes(b"")
        sys.argv = ["saga-mcp", *arguments]
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        asked.send((code, Path(out).read_text(encoding="utf-8")))


class Shell:
    """Runs commands, one after the other, in one process: what each would set up once more is there already."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        out = folder / "commands.out"
        out.touch()
        self._asks, asked = _FORKS.Pipe()
        self._process = _FORKS.Process(target=_run_each, args=(asked, env, str(out)), daemon=True)
        self._process.start()
        asked.close()

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command; exit code and output."""
        self._asks.send(arguments)
        with anyio.fail_after(BOUND_S):
            while not self._asks.poll():  # noqa: ASYNC110 - another process
                await anyio.sleep(0.02)
        code, output = self._asks.recv()
        return code, output

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self._asks.close()
