"""A user's folder: a config, tools that do as the world's files say, and a log made by the real engine."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from saga_mcp import app
from saga_mcp.app import App
from saga_mcp.cli import commands
from saga_mcp.domain.state import Saga
from saga_mcp.engine.port import Caller

CTRL_C = b"\x03"
COMMAND = (str(Path(sys.executable).with_name("saga-mcp")),)
AGENT = Caller()

CONFIG = """\
[saga]
name = "shop"
database = "sqlite:///saga.db"

[python.shop]
path = "tools.py:registry"
"""

TOOLS = '''\
"""Each tool writes a file; what `trouble.txt` names goes wrong."""

import json
import sys
from pathlib import Path

from saga_tools import CannotUndo, NeedsPerson, NoEffect, Retry, ToolRegistry, Undo

HERE = Path(__file__).parent
WORLD = HERE / "world"
WORLD.mkdir(exist_ok=True)
registry = ToolRegistry()
print("tools are being imported")


def trouble(name):
    file = HERE / "trouble.txt"
    return file.exists() and name in file.read_text().split()


@registry.tool
async def book(name: str) -> dict[str, str]:
    """Book."""
    if trouble("book-fails"):
        raise NoEffect(f"no room \\x1b[31m for {name}")
    (WORLD / name).write_text("booked")
    if trouble("book-lost"):
        raise RuntimeError("no answer")
    return {"name": name}


@registry.undoes(book, retry=Retry(attempts=1, first_delay_s=0, max_delay_s=0))
async def cancel(name: str) -> None:
    """Cancel."""
    print("cancelling")
    if trouble("cancel-impossible"):
        raise CannotUndo("too late")
    if trouble("cancel-asks"):
        raise NeedsPerson(f"cancel {name} by telephone", urgency="high")
    (WORLD / name).unlink(missing_ok=True)


@registry.tool
async def pay(name: str) -> dict[str, str]:
    """Pay; nobody can tell afterwards whether it happened."""
    (WORLD / name).write_text("paid")
    if trouble("pay-lost"):
        raise RuntimeError("no answer")
    return {"receipt": f"r-{name}"}


@registry.undoes(pay, idempotent=False, safe_if_absent=False, needs_result=True)
async def refund(name: str, undo: Undo[dict[str, str]]) -> None:
    """Pay back."""
    if undo.result["receipt"] != f"r-{name}":
        raise CannotUndo(f"no receipt {undo.result}")
    if trouble("refund-lost"):
        raise RuntimeError("no answer")
    (WORLD / name).unlink(missing_ok=True)


@registry.tool(settle_s=0)
async def transfer(name: str) -> dict[str, str]:
    """Send money; a probe can tell whether it went."""
    (WORLD / name).write_text("sent")
    if trouble("transfer-lost"):
        raise RuntimeError("no answer")
    return {"receipt": f"r-{name}"}


@registry.probes(transfer)
async def was_sent(name: str) -> dict[str, str] | None:
    if trouble("probe-down"):
        raise RuntimeError("the bank is closed")
    return {"receipt": f"r-{name}"} if (WORLD / name).exists() else None


@registry.undoes(transfer, idempotent=False, safe_if_absent=False)
async def give_back(name: str) -> None:
    (WORLD / name).unlink(missing_ok=True)


@registry.tool(kind="pivot")
async def ship(name: str) -> str:
    """Ship: nothing brings it back."""
    (WORLD / name).write_text("shipped")
    return name


@registry.tool(kind="retriable", idempotent=True, retry=Retry(attempts=2, first_delay_s=0, max_delay_s=0))
async def tell(name: str) -> str:
    """Tell the customer."""
    if trouble("tell-fails"):
        raise NoEffect("nobody answers")
    (WORLD / name).write_text("told")
    return name


@registry.tool(kind="read_only")
async def look() -> list[str]:
    """Look."""
    return sorted(file.name for file in WORLD.iterdir())


@registry.invariant
def nobody_is_told_bad(results) -> None:
    assert results.get("tell") != "bad"


@registry.invariant
def receipts_are_real(results) -> None:
    assert results.get("pay") != {"receipt": "r-forged"}
'''


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the command printed
        return json.loads(self.out)

    @property
    def last_line(self) -> str:
        return self.out.rstrip("\n").rpartition("\n")[2]


@dataclass(frozen=True)
class Project:
    """The folder."""

    folder: Path

    @classmethod
    def written_to(cls, folder: Path) -> Project:
        folder.mkdir()
        (folder / "saga.toml").write_text(CONFIG)
        (folder / "tools.py").write_text(TOOLS)
        return cls(folder)

    @property
    def config(self) -> Path:
        return self.folder / "saga.toml"

    def trouble(self, *names: str) -> None:
        (self.folder / "trouble.txt").write_text(" ".join(names))

    @property
    def world(self) -> list[str]:
        return sorted(file.name for file in (self.folder / "world").iterdir())

    def on_engine(self, work: Callable[[App], Awaitable[Saga]], *, drive: bool = True) -> Saga:
        """What a server did in its life: `work`, then the saga's rest if it drives."""

        async def live() -> Saga:
            with anyio.fail_after(20):
                async with app.open_app(app.load(self.config), drive=drive) as opened:
                    saga = await work(opened)
                    return await opened.engine.rest(saga.id) if drive else saga

        return anyio.run(live)

    def saga(self, *calls: tuple[str, str], purpose: str = "", abort: bool = False) -> Saga:
        """A saga of these calls, by a server that has ended since."""

        async def work(opened: App) -> Saga:
            saga = await opened.engine.begin(AGENT, purpose=purpose)
            for tool, name in calls:
                await opened.engine.call(tool, {"name": name}, saga_id=saga.id, caller=AGENT)
            if abort:
                await opened.engine.abort(saga.id, cause="agent")
            return await opened.engine.saga(saga.id)

        return self.on_engine(work)

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Answer:
        """The real command in a process of its own; it has to end in time."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env={**ENVIRONMENT, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=30,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def serving(self) -> Generator[subprocess.Popen[bytes]]:
        """A live server of the realm; it lives until the block ends."""
        process = subprocess.Popen(
            [*COMMAND, "serve"], cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # An answered ping proves that it serves.
            process.stdin.write(_INITIALIZE)
            process.stdin.flush()
            assert b'"serverInfo"' in process.stdout.readline()
            yield process
        finally:
            process.stdin.close()
            process.wait(timeout=20)
            process.stdout.close()


_CHANGES_THE_COMMAND = {"COLUMNS", "SAGA_MCP_CONFIG", "NO_COLOR", "FORCE_COLOR"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in _CHANGES_THE_COMMAND}
_INITIALIZE = (
    json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"},
            },
        }
    ).encode()
    + b"\n"
)


def in_a_terminal(
    project: Project,
    *arguments: str,
    typed: bytes = b"",
    after: bytes = b"",
    columns: int = 80,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run the command in a terminal of that width, type, and return its exit code and what was on the screen.

    What is typed is typed once `after` is on the screen; whoever types Ctrl-C has to wait for somebody to hear it.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project.folder)
        environment = {**ENVIRONMENT, "COLUMNS": str(columns), "TERM": "xterm", **(env or {})}
        os.execve(COMMAND[0], [*COMMAND, *arguments], environment)  # noqa: S606 - our own command
    screen = b""
    while after not in screen and (chunk := _read(terminal)):
        screen += chunk
    os.write(terminal, typed)
    seen = len(screen)
    while chunk := _read(terminal, again=typed if typed == CTRL_C and b"\n" not in screen[seen:] else b""):
        screen += chunk
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen.decode()


def _read(terminal: int, again: bytes = b"") -> bytes:
    try:
        # Python misses a Ctrl-C that comes just before it begins to read, until the next key. One that is heard begins
        # a new line.
        while again and not select.select([terminal], [], [], 1.0)[0]:
            os.write(terminal, again)
        return os.read(terminal, 4096)
    except OSError:  # Linux says so where the other end is closed
        return b""


def here(project: Project, *arguments: str) -> int:
    """The command in this process: for what a process of its own adds nothing to."""
    return commands.run([*arguments, "--config", str(project.config)])
