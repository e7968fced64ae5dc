"""A real client in its own process, under a test's control; the other end of `drivers/lines.py`."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.clients.installed import HERE, NODE, PROJECT, node_modules, python_with, with_node

BOUND_S = 30.0
_LONGEST = 10_000_000

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A client that the tests know: which driver runs it, in which of its modes, and what it shall negotiate."""

    driver: str
    protocol: str
    environment: str = ""
    """Whose Python runs the driver; empty: ours."""
    mode: str = ""
    bridged: bool = False
    """Whether it reaches the server through `mcp-remote` and HTTP."""

    def command(self) -> list[str]:
        """Install the client if need be, and return what starts its driver."""
        file = HERE / "drivers" / self.driver
        if file.suffix == ".mjs":
            beside = node_modules() / file.name  # Node looks for packages beside the file that imports them
            for source in (file, file.with_name("lines.mjs")):
                _replace(node_modules() / source.name, source.read_bytes())
            return [str(NODE), str(beside)]
        python = str(python_with(self.environment)) if self.environment else sys.executable
        return [python, "-m", f"tests.clients.drivers.{file.stem}"]


class Raised(Exception):
    """The client raised an error of its own."""


@dataclass(frozen=True)
class Result:
    """The result of a call as the client hands it to its user."""

    value: Json

    @property
    def is_error(self) -> bool:
        return bool(self.value.get("isError"))

    @property
    def text(self) -> str:
        return "\n".join(block.get("text", "") for block in self.value["content"])

    @property
    def structured(self) -> Json:
        return cast("Json", self.value["structuredContent"])

    @property
    def facts(self) -> Json:
        return cast("Json", self.value["_meta"]["saga"])


@dataclass
class Remote:
    """A connected client."""

    process: anyio.abc.Process
    outcomes: dict[int, Json] = field(default_factory=dict[int, Json])
    ended: bool = False
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def read(self) -> None:
        assert self.process.stdout is not None
        lines = BufferedByteReceiveStream(self.process.stdout)
        try:
            while True:
                outcome = json.loads(await lines.receive_until(b"\n", _LONGEST))
                self.outcomes[outcome["id"]] = outcome
                self._wake()
        except (anyio.EndOfStream, anyio.IncompleteRead):
            self.ended = True
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def order(self, do: str, **details: object) -> int:
        """Send an order, and return its number at once."""
        number = next(self._numbers)
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps({"id": number, "do": do, **details}).encode() + b"\n")
        return number

    async def outcome(self, number: int) -> Any:  # noqa: ANN401 - JSON
        """What came of an order.

        Raises:
            Raised: the client raised.
        """
        with anyio.fail_after(BOUND_S):
            while number not in self.outcomes:
                assert not self.ended, "the client has ended"
                await self._changed.wait()
        outcome = self.outcomes[number]
        if "raised" in outcome:
            raise Raised(outcome["raised"])
        return outcome["value"]

    async def protocol(self) -> str:
        """The revision that was negotiated."""
        return cast("str", await self.outcome(0))

    async def tools(self) -> dict[str, Json]:
        """Every tool that the client lists, by name."""
        return {tool["name"]: tool for tool in await self.outcome(await self.order("tools"))}

    async def start(self, name: str, /, **arguments: object) -> int:
        return await self.order("call", name=name, arguments=arguments)

    async def call(self, name: str, /, **arguments: object) -> Result:
        return await self.result(await self.start(name, **arguments))

    async def result(self, number: int) -> Result:
        return Result(await self.outcome(number))

    async def cancel(self, number: int) -> None:
        await self.order("cancel", order=number)

    async def until(self, saga_id: str, *steps: str) -> Json:
        """The saga's status once its steps are in these states."""
        with anyio.fail_after(BOUND_S):
            while True:
                status = (await self.call("saga_status", saga_id=saga_id)).structured
                if [step["state"] for step in status["steps"]] == [*steps]:
                    return status
                await anyio.sleep(0.02)


@asynccontextmanager
async def connected(kind: Kind, server: Sequence[str], env: Mapping[str, str]) -> AsyncGenerator[Remote]:
    """Let a client of that kind start `server` and connect to it; afterwards it closes, and ends with status 0."""
    to = {"command": server[0], "args": [*server[1:]], "env": {**os.environ, **env}, "mode": kind.mode}
    command = [*await anyio.to_thread.run_sync(kind.command), json.dumps(to)]
    process = await anyio.open_process(command, stderr=sys.stderr, cwd=PROJECT, env=with_node({**os.environ}))
    remote = Remote(process)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(remote.read)
            await remote.protocol()
            yield remote
            assert process.stdin is not None
            await process.stdin.aclose()
            with anyio.fail_after(BOUND_S):
                assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()


def _replace(file: Path, content: bytes) -> None:
    """Put a file in place as a whole: another worker may be reading it."""
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_bytes(content)
    new.replace(file)
