"""`saga-mcp` in processes of their own, forked where all is imported already: the imports are most of what it costs.

Nothing else differs from a process that was started by its name: it runs `main` with a command line and an
environment, its output goes where it is told, and it can be killed, stopped and woken.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio

from saga_mcp.cli import main

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["tests.replicas.forked", "saga_mcp.app", "saga_mcp.cli.commands", "saga_mcp.cli.act", "saga_mcp.cli.serve_http"]
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


async def run(*arguments: str, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command; exit code and output."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        process = Forked(*arguments, env=env, out=out)
        try:
            return await process.wait(BOUND_S), out.read_text(encoding="utf-8")
        finally:
            process.end()
