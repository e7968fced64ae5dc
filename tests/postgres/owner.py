"""A process that claims to be alive in a log on a server, until it is killed: `python -m tests.postgres.owner`.

Prints its owner id once others can see that it lives.
"""

# ruff: noqa: T201 - see above

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import Claim
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql.opened import open_owned


def placed(url: str, machine: Path) -> ServerPlace:
    """The log at `url` as a machine sees it whose users' data lies in a folder of its own."""
    return ServerPlace(url=url, name="the log", beside=machine / "log")


@contextmanager
def owning(url: str, machine: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Another process that lives, and its owner id."""
    command = [sys.executable, "-m", "tests.postgres.owner", url, str(machine)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as child:
        try:
            assert child.stdout is not None
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


async def main(url: str, machine: Path) -> None:
    async with open_owned(placed(url, machine), Keyring(), serves="ops") as (_, owners):
        assert owners.standing is Claim.HELD
        print(owners.me, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
