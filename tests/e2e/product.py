"""The product as a client sees it: a process that serves LEDGER, its database, and calls over real pipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
from tests.edge.raw_stdio_client import Message, RawClient, started
from tests.world.reading import World

BOUND_S = 30.0
REPOSITORY = Path(__file__).parents[2]
LEDGER = REPOSITORY / "tests" / "world" / "ledger.py"
DYING = REPOSITORY / "tests" / "e2e" / "dying_server.py"
MAIN = "from saga_mcp.cli import main; main()"
COMMAND = [sys.executable, "-c", MAIN]


class Product:
    """One config, one database, one outside world; any number of processes."""

    def __init__(self, folder: Path, *, database: str = "saga.db", url: str = "") -> None:
        self.folder = folder
        self.database = folder / database
        self.url = url or f"sqlite:///{database}"
        self.config = folder / "saga.toml"
        self.world = World(folder / "world.jsonl")
        self.commits = folder / "commits"
        self._env = {**self.world.env, **({"XDG_DATA_HOME": str(folder / "data")} if url else {})}
        self.configure()

    def configure(self, saga: str = "", tools: str = "") -> None:
        """Write the config: further keys of `[saga]`, further tables."""
        self.config.write_text(
            f"""
[saga]
name = "ledger"
database = "{self.url}"
probe_for_s = 1.0
{saga}

[python.ledger]
path = '{LEDGER}:registry'
{tools}
""",
            encoding="utf-8",
        )

    @asynccontextmanager
    async def serve(
        self,
        *options: str,
        die_after_commit: int | None = None,
        first: str = "",
        env: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Client]:
        """Start a server and initialize it; it is killed when the block ends.

        Args:
            options: further ones of `saga-mcp serve`.
            die_after_commit: it kills itself after that many.
            first: Python that runs in its process before anything of ours is imported.
            env: further variables of its environment.
        """
        command = [sys.executable, "-c", f"{first}\n{MAIN}", "serve", "--config", str(self.config), *options]
        more = {"LEDGER_SETTLE_S": "0.2", "LEDGER_TIMEOUT_S": "30", **(env or {})}
        if die_after_commit is not None:
            command = [sys.executable, str(DYING), "serve", "--config", str(self.config)]
            more |= {
                "DIE_AFTER_COMMIT": str(die_after_commit),
                "COMMITS_FILE": str(self.commits),
                "PYTHONPATH": str(REPOSITORY),
            }
        async with started(command, env={**os.environ, **self._env, **more}) as raw:
            with anyio.fail_after(BOUND_S):
                await raw.initialize()
            client = Client(raw)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.read)
                tasks.start_soon(client.read_log)
                try:
                    yield client
                finally:
                    tasks.cancel_scope.cancel()

    async def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a command of the product; exit code and output."""
        with anyio.fail_after(BOUND_S):
            result = await anyio.run_process(
                [*COMMAND, *arguments, "--config", str(self.config)],
                check=False,
                env={**os.environ, **self._env, **(env or {})},
            )
        return result.returncode, (result.stdout + result.stderr).decode()


class ServerDied(Exception):
    """The process ended before it answered."""


class Client:
    """Calls that may overlap, each with an id of its own; what nobody waits for is kept."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw
        self.messages: list[Message] = []
        self.log = ""
        self.ended = anyio.Event()
        self.log_ended = anyio.Event()
        self._arrived = anyio.Event()
        self._next = 0

    async def read(self) -> None:
        while True:
            try:
                line = await self.raw._stdout.receive_until(b"\n", 20_000_000)  # pyright: ignore[reportPrivateUsage]  # the same client
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                self.ended.set()
                self._wake()
                return
            self.messages.append(cast("Message", json.loads(line)))
            self._wake()

    async def read_log(self) -> None:
        try:
            while True:
                self.log += (await self.raw._stderr.receive()).decode(errors="replace")  # pyright: ignore[reportPrivateUsage]  # see above
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self.log_ended.set()

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()

    async def ask(self, name: str, /, **arguments: object) -> int:
        """Send a call, and return its id at once."""
        return await self.ask_with({}, name, **arguments)

    async def ask_with(self, meta: Mapping[str, object], name: str, /, **arguments: object) -> int:
        """The same with what the client says about the call itself, in `_meta`."""
        self._next += 1
        request_id = self._next
        params = {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}
        await self._send({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})
        return request_id

    async def cancel(self, request_id: int) -> None:
        await self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})

    async def _send(self, message: Message) -> None:
        try:
            await self.raw.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise ServerDied from error

    def replies_to(self, request_id: int | str) -> list[Message]:
        return [message for message in self.messages if message.get("id") == request_id and "method" not in message]

    async def notified(self, holds: Callable[[Message], bool]) -> Message:
        """The first notification of which `holds` says so."""
        with anyio.fail_after(BOUND_S):
            while not (found := [each for each in self.messages if "id" not in each and holds(each["params"])]):
                await self._arrived.wait()
        return found[0]

    async def answer_to(self, request_id: int | str, *, within_s: float = BOUND_S) -> Message:
        """The answer, be it a result or an error of the protocol."""
        with anyio.fail_after(within_s):
            while not (found := self.replies_to(request_id)):
                if self.ended.is_set():
                    raise ServerDied
                await self._arrived.wait()
        return found[0]

    async def reply_to(self, request_id: int, *, within_s: float = BOUND_S) -> Reply:
        return Reply(await self.answer_to(request_id, within_s=within_s))

    async def call(self, name: str, /, **arguments: object) -> Reply:
        return await self.reply_to(await self.ask(name, **arguments))

    async def begin(self) -> str:
        return (await self.call("saga_begin")).saga_id

    async def status(self, saga_id: str) -> dict[str, Any]:
        return (await self.call("saga_status", saga_id=saga_id)).structured

    async def until(self, saga_id: str, *states: str) -> dict[str, Any]:
        """The status as soon as the saga's state is one of these."""
        with anyio.fail_after(BOUND_S):
            while (status := await self.status(saga_id))["state"] not in states:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.02)
        return status

    async def at_rest(self, saga_id: str) -> dict[str, Any]:
        """The status once nothing of the saga runs or is due."""
        with anyio.fail_after(BOUND_S):
            while True:
                rows = (await self.call("saga_status")).structured["sagas"]
                if not any(row["saga_id"] == saga_id and row.get("busy") for row in rows):
                    return await self.status(saga_id)
                await anyio.sleep(0.02)

    async def close_stdin(self) -> None:
        await self.raw.stdin.aclose()

    async def exits(self, within_s: float) -> int:
        with anyio.fail_after(within_s):
            return await self.raw.process.wait()

    def kill(self) -> None:
        self.raw.process.kill()


class Reply:
    """A reply to a call."""

    def __init__(self, message: Message) -> None:
        self.message = message
        assert "result" in message, message
        self.result: dict[str, Any] = message["result"]

    @property
    def is_error(self) -> bool:
        return bool(self.result.get("isError", False))

    @property
    def text(self) -> str:
        return "\n".join(block.get("text", "") for block in self.result["content"])

    @property
    def structured(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.result["structuredContent"])

    @property
    def facts(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.result["_meta"]["saga"])

    @property
    def saga_id(self) -> str:
        return cast("str", self.facts["id"])

    @property
    def state(self) -> str:
        return cast("str", self.facts["state"])

    @property
    def code(self) -> str:
        return cast("str", self.facts.get("code", ""))
