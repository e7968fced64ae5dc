"""Asks servers which tools they have, and calls none of them.

The one place of this command that speaks MCP. Each server is started once, all at the same time as their client does
it, so that one limit holds for all of them together; and ended again.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeAlias

import anyio
import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client

from saga_mcp.cli.adopting.client_file import Entry
from saga_mcp.cli.output import count
from saga_mcp.tools.running import describe
from saga_mcp.tools.upstream.listing import Read, ToolLists, Write

ASKED_WITHIN_S = 60.0
"""For all servers together. A first `npx` or `uvx` downloads what it starts."""
TOLD_EVERY_S = 10.0
"""How often somebody who waits is told for what."""
_HOLE = re.compile(r"\$\{(?:(?P<kind>env|input):)?(?P<name>[A-Za-z0-9_-]+)(?::-(?P<default>[^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Listed:
    """A server that answered."""

    server: str
    """The name that it gives itself."""
    version: str
    tools: tuple[types.Tool, ...]
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A server that could not be asked."""

    reason: str


Answer: TypeAlias = Listed | Silent


async def ask_all(
    entries: Sequence[Entry],
    folder: Path,
    environ: Mapping[str, str],
    *,
    client_fills: bool,
    told: Callable[[str], None],
) -> dict[str, Answer]:
    """Ask every server for its tools, all at the same time.

    Args:
        entries: As the client has them.
        folder: Where those run that do not say where.
        environ: What stands in for what a client fills in.
        client_fills: Whether the client fills in `${...}` at all; Claude Desktop hands them on as they are.
        told: Called with a line for each answer, and while there is none, for somebody who waits.
    """
    answers: dict[str, Answer] = {}

    async def ask_one(entry: Entry) -> None:
        answer = await _ask(entry, folder, _Fill(folder, environ if client_fills else None))
        answers[entry.name] = answer
        told(f"{entry.name}: {count(len(answer.tools), 'tool') if isinstance(answer, Listed) else 'did not come up'}")

    async def tell_who_waits() -> None:
        while True:
            await anyio.sleep(TOLD_EVERY_S)
            missing = [entry.name for entry in entries if entry.name not in answers]
            told(f"still waiting for {', '.join(missing)}; {ASKED_WITHIN_S:g} s are the limit")

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(tell_who_waits)
        async with anyio.create_task_group() as tasks:
            for entry in entries:
                tasks.start_soon(ask_one, entry)
        waiting.cancel_scope.cancel()
    return {entry.name: answers[entry.name] for entry in entries}


async def _ask(entry: Entry, folder: Path, fill: _Fill) -> Answer:
    command, url, cwd = fill.text(entry.command), fill.text(entry.url), fill.text(entry.cwd)
    args = [fill.text(arg) for arg in entry.args]
    env = {name: fill.text(value) for name, value in entry.env.items()}
    headers = {name: fill.text(value) for name, value in entry.headers.items()}
    if fill.missing:
        return Silent(f"the client fills in {', '.join(fill.missing)}: set it in the environment and try again")
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            with anyio.fail_after(ASKED_WITHIN_S):
                if url:
                    return await _ask_over_http(url, headers)
                whole_env = {**get_default_environment(), **env}
                server = StdioServerParameters(command=command, args=args, env=whole_env, cwd=cwd or folder)
                return await _listed(stdio_client(server, errlog=said))
        except TimeoutError:
            return Silent(f"no answer within {ASKED_WITHIN_S:g} s (a first start may download: start it once alone)")
        except Exception as error:  # noqa: BLE001 - whatever somebody's server does, it costs only itself
            return Silent(_reason(error, _last_line(said)))


async def _listed(transport: AbstractAsyncContextManager[tuple[Read, Write]]) -> Listed:
    lists = ToolLists()
    async with Client(lists.over(transport)) as client:
        tools = await lists.ask(client)
        server = client.server_info
        name, version = (server.name, server.version) if server else ("", "")
        return Listed(name, version, tuple(tools), lists.left_out)


async def _ask_over_http(url: str, headers: Mapping[str, str]) -> Listed:
    async with httpx2.AsyncClient(headers=dict(headers), follow_redirects=True) as http:
        return await _listed(streamable_http_client(url, http_client=http))


class _Fill:
    """Fills in what a client would; None for `environ`: nothing, as the client does not either."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None) -> None:
        self._folder = folder
        self._environ = environ
        self.missing: list[str] = []

    def text(self, written: str) -> str:
        return written if self._environ is None else _HOLE.sub(self._one, written)

    def _one(self, hole: re.Match[str]) -> str:
        environ = self._environ or {}
        own = {"workspaceFolder": str(self._folder), "userHome": str(Path.home())}
        if hole["name"] in own and hole["kind"] is None:
            return own[hole["name"]]
        name = hole["name"]
        if hole["kind"] == "input":
            name = f"INPUT_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"
        value: str | None = environ.get(name) or hole["default"]
        if value is None:
            self.missing.append(f"{hole[0]} ({name})")
            return ""
        return value


def _last_line(said: TextIO) -> str:
    said.seek(0)
    lines = [line.strip() for line in said.read().splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def _reason(error: BaseException, said: str) -> str:
    return f"{describe(error)}: {said}" if said else describe(error)
