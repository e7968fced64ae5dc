"""The engine: runs steps and rollbacks in tasks of its own; requests only wait for them (DESIGN.md rules 1 to 6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self

from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonValue
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.port import Caller, CallReply, EngineSettings, PersonDecision
from saga_mcp.log.port import Owners, SagaLog, SagaRow
from saga_mcp.tools.port import Catalogue


class Engine:
    """One per process. Every method that changes something returns after the change is durable."""

    @classmethod
    @asynccontextmanager
    async def running(
        cls,
        settings: EngineSettings,
        log: SagaLog,
        owners: Owners,
        catalogue: Catalogue,
        *,
        clock: Clock | None = None,
        drive: bool = True,
    ) -> AsyncIterator[Self]:
        """The engine with its tasks; recovery of what dead processes left goes on in the background.

        Args:
            drive: False only appends and reads: for a command that leaves the driving to a live server.
        """
        raise NotImplementedError
        yield

    async def call(
        self,
        offered: str,
        arguments: Mapping[str, JsonValue],
        *,
        saga_id: str | None = None,
        step_key: str = "",
        caller: Caller,
    ) -> CallReply:
        """Run a tool: as a step of `saga_id`, of a new saga without one, or as a plain read.

        Raises:
            UnknownTool, InvalidArguments, SagaIdMissing, SagaIdMistyped, Refused, LogError: nothing was sent.
        """
        raise NotImplementedError

    async def begin(self, caller: Caller, *, purpose: str = "", key: str = "") -> Saga:
        """Open a saga; the same `key` of the same caller returns the same saga (S8.4)."""
        raise NotImplementedError

    async def commit(self, saga_id: str, *, by: str, accept_failed: Sequence[int] = ()) -> Saga:
        """Keep everything; idempotent."""
        raise NotImplementedError

    async def abort(
        self, saga_id: str, *, cause: str, by: str = "", reason: str = "", to_savepoint: str | None = None
    ) -> Saga:
        """Undo; answers within `reply_within_s` with the state then, the rollback goes on."""
        raise NotImplementedError

    async def savepoint(self, saga_id: str, name: str) -> Saga:
        """Set a mark."""
        raise NotImplementedError

    async def saga(self, saga_id: str) -> Saga:
        """The state now."""
        raise NotImplementedError

    async def open_sagas(self, caller: Caller, *, limit: int = 100) -> Sequence[SagaRow]:
        """The caller's open sagas, newest first (S1.4)."""
        raise NotImplementedError

    async def decide_item(self, saga_id: str, decision: PersonDecision) -> Saga:
        """Append what a person decided about an attention item, and drive on.

        Raises:
            Refused: the verb does not fit what waits there; nothing was changed.
        """
        raise NotImplementedError

    async def rest(self, saga_id: str) -> Saga:
        """The state once nothing of the saga runs or is due any more."""
        raise NotImplementedError

    async def drain(self, grace_s: float) -> None:
        """Start nothing new, and wait at most that long for what runs to be recorded (S12.1)."""
        raise NotImplementedError
