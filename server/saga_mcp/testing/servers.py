"""Servers one after the other on one log, as if each were a process of its own.

A server lives in a task of its own, so that it may be started and ended from different tasks (fixtures do), and so that
its death takes nothing with it but its own work. An `open_app` that ends without being drained leaves behind what a
kill does: no outcome is recorded any more, and the owner's lock is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from saga_mcp.app import App, open_app
from saga_mcp.config import LoadedConfig
from saga_mcp.engine.clock import HastyClock
from saga_mcp.tools.port import Catalogue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Server:
    """One server, from its start to its death."""

    app: App
    died: anyio.Event = field(default_factory=anyio.Event)


class Servers:
    """The server that runs now, and the next one when it dies.

    Args:
        loaded: What each of them serves.
        around: Put around the catalogue of each.
    """

    def __init__(self, loaded: LoadedConfig, around: Callable[[Catalogue], Catalogue]) -> None:
        self._loaded = loaded
        self._around = around
        self._closing = False
        self._next: asyncio.Future[Server]
        self._host: asyncio.Task[None]

    async def start(self) -> None:
        """Start the first one.

        Raises:
            LifespanFailed: What the tools share did not open.
        """
        self._next = asyncio.get_running_loop().create_future()
        self._host = asyncio.create_task(self._run())
        await self._next

    async def _run(self) -> None:
        while not self._closing:
            try:
                async with open_app(self._loaded, clock=HastyClock(), around=self._around) as app:
                    server = Server(app)
                    self._next.set_result(server)
                    await server.died.wait()
            except Exception as error:  # noqa: BLE001 - raised to whoever waits for a server
                self._next.set_exception(error)
                return
        self._next.set_exception(RuntimeError("the harness is closed"))

    def kill(self) -> None:
        """Let the server die, and the next one start; nothing where none runs."""
        if self._next.done() and self._next.exception() is None:
            server = self._next.result()
            self._next = asyncio.get_running_loop().create_future()
            server.died.set()

    async def close(self) -> None:
        """Let the last one die; whoever still waits for an answer is told."""
        self._closing = True
        self.kill()
        with anyio.CancelScope(shield=True):
            await self._host
        self._next.exception()  # nobody may be waiting

    async def ask(self, work: Callable[[App], Awaitable[T]]) -> tuple[T] | None:
        """Do something with the server that runs; None: it died meanwhile, and the next one runs by now.

        Raises:
            LifespanFailed: The next one could not start.
        """
        server = await self._next
        answers: list[T] = []
        errors: list[Exception] = []

        async def watch() -> None:
            await server.died.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                answers.append(await work(server.app))
            except Exception as error:  # noqa: BLE001 - raised below: the task group would wrap it in a group
                errors.append(error)
            tasks.cancel_scope.cancel()
        if errors:
            raise errors[0]
        if not answers:
            await self._next
            return None
        return (answers[0],)
