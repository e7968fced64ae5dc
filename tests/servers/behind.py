"""Real servers behind saga-mcp: a folder, a config with their presets, the command, and the SDK's own client.

Each server is the published package, in an environment of its own. What became of the world is read from its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from mcp import Client, StdioServerParameters
from tests.clients.installed import NODE, node_modules, python_of

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("saga-mcp")
BOUND_S = 120.0
"""Of a whole test: on a busy machine the start of a server alone takes many seconds."""

Json = dict[str, Any]


def node_server(package: str, modules: Path | None = None) -> list[str]:
    """The command of a server from npm, out of the packages that all of them share or others."""
    folder = (modules or node_modules(HERE)) / "node_modules" / package
    binary: str | dict[str, str] = json.loads((folder / "package.json").read_text())["bin"]
    return [str(NODE), str(folder / (binary if isinstance(binary, str) else next(iter(binary.values()))))]


def python_server(name: str, command: str) -> list[str]:
    """The command of a server from PyPI; its lock is `requirements/server-<name>.txt`."""
    return [str(python_of(f"server-{name}").with_name(command))]


@dataclass
class Behind:
    """One folder with a config; servers are added before it is served."""

    folder: Path
    saga: str = ""
    """Lines for `[saga]`."""
    blocks: list[str] = field(default_factory=list[str])
    deadly: bool = False
    """Whether servers that are added from now on can be killed in the middle of a call."""

    @property
    def config(self) -> Path:
        return self.folder / "saga.toml"

    @property
    def files(self) -> Path:
        """What the filesystem server may touch."""
        return self.folder / "files"

    @property
    def graph(self) -> Path:
        """The file of the memory server."""
        return self.folder / "memory.json"

    @property
    def repository(self) -> Path:
        """What the git server works on."""
        return self.folder / "repository"

    @property
    def database(self) -> Path:
        """The file of the SQLite server."""
        return self.folder / "data.db"

    @property
    def books(self) -> Path:
        """Where the Excel server keeps workbooks."""
        return self.folder / "books"

    def add(self, name: str, preset: str, command: list[str], env: dict[str, str] | None = None) -> None:
        if self.deadly:
            command = [sys.executable, str(HERE / "deadly.py"), str(self.folder), *command]
        lines = [f"[upstreams.{name}]", f"command = {json.dumps(command[0])}", f"args = {json.dumps(command[1:])}"]
        if env:
            lines.append("env = { " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items()) + " }")
        self.blocks.append("\n".join([*lines, f"preset = {json.dumps(preset)}"]))

    def add_filesystem(self) -> None:
        self.files.mkdir()
        self.repository.mkdir(exist_ok=True)
        command = node_server("@modelcontextprotocol/server-filesystem")
        self.add("fs", "filesystem", [*command, str(self.files), str(self.repository)])

    def add_memory(self) -> None:
        env = {"MEMORY_FILE_PATH": str(self.graph)}
        self.add("memory", "memory", node_server("@modelcontextprotocol/server-memory"), env)

    def make_repository(self) -> None:
        """A repository with one commit on `main`."""
        self.repository.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "ada@example.org")
        self.git("config", "user.name", "Ada")
        (self.repository / "first").write_text("first\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")

    def add_git(self) -> None:
        self.make_repository()
        self.add("git", "git", [*python_server("git", "mcp-server-git"), "--repository", str(self.repository)])

    def add_sqlite(self) -> None:
        command = [*python_server("sqlite", "mcp-server-sqlite"), "--db-path", str(self.database)]
        self.add("db", "sqlite", command)

    def add_excel(self) -> None:
        self.books.mkdir()
        command = [*python_server("excel", "excel-mcp-server"), "stdio"]
        self.add("excel", "excel", command, {"EXCEL_FILES_PATH": str(self.books)})

    def add_word(self) -> None:
        self.add("word", "word", python_server("word", "word_mcp_server"))

    def add_kubernetes(self, kubeconfig: Path) -> None:
        modules = node_modules(HERE / "kubernetes", optional=True)
        command = node_server("kubernetes-mcp-server", modules)
        self.add("k8s", "kubernetes", [*command, "--kubeconfig", str(kubeconfig), "--toolsets", "core,config,helm"])

    def kill(self, moment: str, tool: str) -> None:
        """Have the server killed at the next call of the tool: `before` it sees it, or `after` it has answered it."""
        (self.folder / f"{moment}-{tool}").touch()

    def git(self, *arguments: str) -> str:
        """Git itself, which the servers know nothing of."""
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - whichever git this machine has
            cwd=self.repository,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def sql(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(query).fetchall()

    def write(self, statement: str) -> None:
        """What somebody else does to the database."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute(statement)

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "GIT_CONFIG_GLOBAL": os.devnull}

    @asynccontextmanager
    async def serve(self, bound_s: float = BOUND_S) -> AsyncGenerator[Agent]:
        """Serve everything that was added, with a client of the SDK connected to it."""
        head = f'[saga]\nname = "behind"\ndatabase = "sqlite:///saga.db"\n{self.saga}'
        self.config.write_text("\n\n".join([head, *self.blocks]), encoding="utf-8")
        server = StdioServerParameters(
            command=str(COMMAND), args=["serve", "--config", str(self.config)], env=self.environ, cwd=self.folder
        )
        with anyio.fail_after(bound_s):
            async with Client(server) as client:
                agent = Agent(client)
                await agent.until_listed(len(self.blocks))
                yield agent

    def run(self, *arguments: str) -> Json:
        """A command of the product, with its JSON."""
        done = subprocess.run(
            [COMMAND, *arguments, "--json", "--config", self.config],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        return cast("Json", json.loads(done.stdout))


@dataclass
class Agent:
    """A client, and the saga that it works in."""

    client: Client
    saga: str = ""

    async def until_listed(self, upstreams: int) -> None:
        """Wait until every upstream has told what its tools take: before that a call is refused."""
        while True:
            tools = (await self.client.list_tools(cache_mode="bypass")).tools
            own = {"saga_id", "step_key"}
            known = {tool.name.partition("_")[0] for tool in tools if {*tool.input_schema.get("properties", {})} - own}
            if len(known - {"saga"}) >= upstreams:
                return
            await anyio.sleep(0.05)

    async def begin(self) -> None:
        self.saga = (await self.do("saga_begin"))["saga_id"]

    async def try_to(self, tool: str, **arguments: Any) -> Any:  # noqa: ANN401 - what a tool takes and gives
        """Call a tool in the saga; the whole reply."""
        own = {"saga_id": self.saga} if self.saga and tool != "saga_begin" else {}
        return await self.client.call_tool(tool, {**own, **arguments})

    async def do(self, tool: str, **arguments: Any) -> Json:  # noqa: ANN401 - see above
        """Call a tool that has to succeed; its structured result."""
        reply = await self.try_to(tool, **arguments)
        assert not reply.is_error, reply.content
        return cast("Json", reply.structured_content or {})

    async def settled(self) -> Json:
        """How the saga stands once nothing is in doubt and nothing is being undone, or a person is needed."""
        while True:
            status = await self.client.call_tool("saga_status", {"saga_id": self.saga})
            seen = cast("Json", status.structured_content)
            doubtful = any(step["state"] in {"in_doubt", "intended"} for step in seen["steps"])
            if seen["state"] == "needs_attention" or (seen["state"] != "compensating" and not doubtful):
                return seen
            await anyio.sleep(0.05)

    async def abort(self) -> Json:
        """Undo the saga; what became of it, once it is at rest."""
        await self.client.call_tool("saga_abort", {"saga_id": self.saga})
        while True:
            status = await self.client.call_tool("saga_status", {"saga_id": self.saga})
            seen = cast("Json", status.structured_content)
            if seen["state"] != "compensating":
                return seen
            await anyio.sleep(0.05)


def tree(folder: Path, *, without: str = ".undone-") -> dict[str, str]:
    """Everything in a folder by its path: a file's content as a hash; but for what an undo moved aside."""
    found = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }
    return {name: content for name, content in found.items() if without not in name}


def graph(file: Path) -> set[str]:
    """A graph of the memory server, without the order of its lines and of observations."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for line in lines:
        if "observations" in line:
            line["observations"].sort()
    return {json.dumps(line, sort_keys=True) for line in lines}
