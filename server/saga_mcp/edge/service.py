"""What the edge asks of the engine, as a Protocol: `Engine` fulfils it, and so does the script of a test."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonValue
from saga_mcp.engine.port import Answer, Caller, CallReply, EngineSettings, Receipt, Relay
from saga_mcp.engine.waiting import OnProgress
from saga_mcp.log.port import Claim, SagaRow


class SagaService(Protocol):
    """The part of `saga_mcp.engine.engine.Engine` that agents reach; its docstrings hold."""

    @property
    def settings(self) -> EngineSettings:
        """What the config says about every saga."""
        ...

    @property
    def standing(self) -> Claim:
        """Whether this process does what is due."""
        ...

    @property
    def driver_trouble(self) -> str:
        """Why rollbacks do not go on now; empty: they do."""
        ...

    async def call(
        self,
        offered: str,
        arguments: Mapping[str, JsonValue],
        *,
        saga_id: str | None = None,
        step_key: str = "",
        caller: Caller,
        receipt: Receipt | None = None,
    ) -> CallReply:
        """Run a governed tool."""
        ...

    async def relay(self, saga_id: str, number: int, answer: Answer) -> Relay:
        """Append what a client says that a person answered."""
        ...

    async def begin(self, caller: Caller, *, purpose: str = "", key: str = "", team: str = "") -> Saga:
        """Open a saga, of a team where one is named."""
        ...

    async def commit(self, saga_id: str, *, by: str, accept_failed: Sequence[int] = ()) -> Saga:
        """Keep everything."""
        ...

    async def abort(
        self,
        saga_id: str,
        *,
        cause: str,
        by: str = "",
        reason: str = "",
        to_savepoint: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Saga:
        """Undo."""
        ...

    async def revert(self, saga_id: str, order: RevertOrder, on_progress: OnProgress | None = None) -> Saga:
        """Undo a committed saga by a new one."""
        ...

    async def savepoint(self, saga_id: str, name: str) -> Saga:
        """Set a mark."""
        ...

    async def saga(self, saga_id: str) -> Saga:
        """The state now."""
        ...

    async def paused(self) -> Mapping[str, Pause]:
        """What a person has paused, by tool."""
        ...

    async def overdue(self, saga: Saga) -> tuple[int, ...]:
        """Steps that another process runs past their hard deadline, and says nothing of."""
        ...

    async def open_sagas(
        self, caller: Caller, *, limit: int = 100, owners: Sequence[str | None] = ()
    ) -> Sequence[SagaRow]:
        """The caller's open sagas, or those of `owners` (None: everybody); this conversation's first, newest first."""
        ...
