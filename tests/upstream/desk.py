"""A saga-mcp before the ledger, for tests: a folder with its config, the real command, and the SDK's client."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import psutil
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from tests.edge.raw_stdio_client import RawClient, started

from saga_mcp import app
from saga_mcp.edge.changes import ListChanges
from saga_mcp.edge.server import build_server
from saga_mcp.engine.clock import Clock, SystemClock

LEDGER = Path(__file__).with_name("ledger_server.py")
COMMAND = [sys.executable, "-c", "from saga_mcp.cli import main; main()"]
BOUND_S = 40.0

Json = dict[str, Any]

NOTES = """
from pathlib import Path
from saga_tools import ToolRegistry, Undo

registry = ToolRegistry()
FILE = Path(__file__).with_name("notes.jsonl")

def write(line: str) -> None:
    with FILE.open("a") as file:
        file.write(line + "\\n")

@registry.tool
def note(text: str) -> dict[str, str]:
    write(f"note {text}")
    return {"text": text}

@registry.undoes(note)
def unnote(text: str) -> None:
    write(f"unnote {text}")
"""

PAIRED = """
[tools."ledger.add"]
undo = { tool = "ledger.remove", args = { id = "${result.id}" } }
"""


@dataclass
class Desk:
    """One folder: a config, the ledger's file, the notes of a Python tool."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "saga.toml"

    @property
    def python(self) -> str:
        return sys.executable

    @property
    def world(self) -> Path:
        return self.folder / "ledger.jsonl"

    def configure(self, tools: str = PAIRED, *, upstream: str = "", saga: str = "", more: str = "") -> None:
        (self.folder / "notes.py").write_text(NOTES, encoding="utf-8")
        self.config.write_text(
            f"""
[saga]
name = "desk"
database = "sqlite:///saga.db"
probe_for_s = 1.0
{saga}

[python.notes]
path = "notes.py:registry"

[upstreams.ledger]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(LEDGER))}]
env = {{ LEDGER = "ledger.jsonl" }}
read_only = ["look"]
{upstream}

{tools}
{more}
""",
            encoding="utf-8",
        )

    def switch(self, name: str, *, on: bool = True) -> None:
        """Say how the ledger behaves; see there."""
        file = self.world.with_suffix(f".{name}")
        if on:
            file.touch()
        else:
            file.unlink()

    @property
    def lines(self) -> list[Json]:
        text = self.world.read_text(encoding="utf-8") if self.world.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    @property
    def did(self) -> list[str]:
        """What was done to the ledger, in order."""
        kept = {"add": "item", "remove": "id", "say": "text"}
        return [f"{line['do']} {line[kept[line['do']]]}" for line in self.lines if line["do"] in kept]

    @property
    def notes(self) -> list[str]:
        file = self.folder / "notes.jsonl"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    @property
    def pids(self) -> list[int]:
        """Of every ledger that was started, in order."""
        return [line["pid"] for line in self.lines if line["do"] == "started"]

    def called(self, tool: str) -> int:
        """How often a call of the tool has arrived."""
        return sum(line["do"] == "called" and line["tool"] == tool for line in self.lines)

    @asynccontextmanager
    async def serve(self, *, era: str = "auto", **env: str) -> AsyncGenerator[Agent]:
        """The command, with a client of the SDK connected to it."""
        command = [*COMMAND, "serve", "--config", str(self.config)]
        environ = {**os.environ, **env}
        with anyio.fail_after(BOUND_S * 3):
            parameters = StdioServerParameters(command=command[0], args=command[1:], env=environ, cwd=self.folder)
            async with Client(parameters, mode=era) as client:
                yield Agent(client)

    @asynccontextmanager
    async def open(self, clock: Clock | None = None) -> AsyncGenerator[Agent]:
        """The same in this process, with a client of the SDK in front of it."""
        changes = ListChanges()
        async with app.open_app(app.load(self.config), clock=clock, tools_changed=changes.tell) as opened:
            server = build_server(opened.engine, opened.catalogue, changes=changes)
            async with Client(server) as client:
                yield Agent(client)

    async def run(self, *arguments: str, **env: str) -> tuple[int, str]:
        """Run a command of the product; exit code and output."""
        with anyio.fail_after(BOUND_S):
            result = await anyio.run_process(
                [*COMMAND, *arguments, "--config", str(self.config)],
                check=False,
                env={**os.environ, **env},
            )
        return result.returncode, (result.stdout + result.stderr).decode()


@dataclass
class Agent:
    """What an agent does through the SDK's client."""

    client: Client

    async def call(self, name: str, /, **arguments: object) -> Result:
        with anyio.fail_after(BOUND_S):
            return Result((await self.client.call_tool(name, arguments)).model_dump(by_alias=True, mode="json"))

    async def begin(self) -> str:
        return cast("str", (await self.call("saga_begin")).facts["id"])

    async def tools(self) -> dict[str, Json]:
        listed = await self.client.session.list_tools()
        return {tool.name: tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in listed.tools}

    async def until_up(self, tool: str = "ledger_look") -> None:
        """Wait until the upstream answers."""
        with anyio.fail_after(BOUND_S):
            while (await self.call(tool)).value["isError"]:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.02)

    async def until(self, saga_id: str, state: str) -> Json:
        """Wait until the saga is in this state, and return its status."""
        with anyio.fail_after(BOUND_S):
            while True:
                status = cast("Json", (await self.call("saga_status", saga_id=saga_id)).value["structuredContent"])
                if status["state"] == state:
                    return status
                await anyio.sleep(0.02)


@dataclass(frozen=True)
class Result:
    """The result of a call as the client has it."""

    value: Json

    @property
    def facts(self) -> Json:
        return cast("Json", self.value["_meta"]["saga"])

    @property
    def text(self) -> str:
        return "\n".join(block.get("text", "") for block in self.value["content"])

    @property
    def is_error(self) -> bool:
        return bool(self.value["isError"])


class Leaping(SystemClock):
    """A clock that a test puts forward, and back-offs that take no time."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s

    def jitter(self, longest_s: float) -> float:
        return min(longest_s, 0.2)


async def undo_of(agent: Agent, saga_id: str) -> str:
    """How far the undo of the first step is, as agents are told."""
    status = (await agent.call("saga_status", saga_id=saga_id)).value["structuredContent"]
    return cast("str", status["steps"][0]["undo"])


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until the outside world is so."""
    with anyio.fail_after(BOUND_S):
        while not holds():  # noqa: ASYNC110 - the outside world
            await anyio.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@asynccontextmanager
async def raw(desk: Desk) -> AsyncGenerator[RawClient]:
    """The command, under a client that leaves it alone when it is killed."""
    command = [*COMMAND, "serve", "--config", str(desk.config)]
    async with started(command, env=dict(os.environ)) as client:
        await client.initialize()
        with anyio.fail_after(20):
            while (await client.call("ledger_look"))["result"]["isError"]:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.02)
        yield client
