"""Questions that are also put to a person through the client whose call asks (SEMANTICS.md S9.1).

In the engine because a question outlives the request that asked it: whoever answers first, here or with the command,
settles it, and what comes after that changes nothing. How a client is asked is the edge's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain import approvals
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import ItemRefused, LogError
from saga_mcp.domain.events import Event
from saga_mcp.domain.repeats import is_asked
from saga_mcp.domain.state import Saga
from saga_mcp.engine.port import Answer, Ask, PersonDecision, Relay
from saga_mcp.engine.recent import Recent
from saga_mcp.engine.supervise import wait_for
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Question:
    over: anyio.Event = field(default_factory=anyio.Event)
    relay: Relay = Relay.OPEN


class Relaying:
    """The questions that clients of this process ask, or were asked in vain."""

    def __init__(
        self, workshop: Workshop, decide: Callable[[str, PersonDecision], Awaitable[Saga]], tasks: TaskGroup
    ) -> None:
        self._shop = workshop
        self._decide = decide
        self._tasks = tasks
        self._open: dict[tuple[str, int], _Question] = {}
        self._in_vain: Recent[tuple[str, int], bool] = Recent()

    async def put(self, saga: Saga, number: int, ask: Ask, *, within_s: float) -> Relay:
        """Put the question at a step to a client, once, and wait so many seconds for what becomes of it.

        It stays open there afterwards. A call that repeats the one that asked waits for the same answer; one that was
        closed without an answer is not put again, or a model could ask until somebody says yes.
        """
        if self._in_vain.get((saga.id, number)):
            return Relay.UNANSWERED
        question = self._open.get((saga.id, number))
        if question is None:
            question = self._open[saga.id, number] = _Question()
            self._tasks.start_soon(self._ask, saga, number, ask, question)
        await wait_for(question.over, within_s, self._shop.clock)
        return question.relay

    async def append(self, saga_id: str, number: int, answer: Answer) -> Relay:
        """Append a client's answer; `TOO_LATE`: the question was settled before, and nothing was changed."""

        def decision(saga: Saga, driving: Driving) -> tuple[Event, ...]:
            if answer.allowed:
                return approvals.approve(saga, number, by=answer.by, note=answer.note, now=self._shop.clock.wall())
            return approvals.reject(saga, number, by=answer.by, note=answer.note, driving=driving)

        try:
            await self._decide(saga_id, decision)
        except ItemRefused:
            _log.warning("relayed_answer_too_late", saga_id=saga_id, step=number, allowed=answer.allowed)
            return Relay.TOO_LATE
        return Relay.SETTLED

    async def _ask(self, saga: Saga, number: int, ask: Ask, question: _Question) -> None:
        relay = Relay.UNANSWERED
        try:
            relay = await self._answered(saga, number, ask)
        except Exception as error:  # noqa: BLE001 - whatever a client does, or the log: the question is open elsewhere
            _log.warning("client_did_not_ask", saga_id=saga.id, step=number, error_type=type(error).__name__)
        finally:
            question.relay = relay
            question.over.set()
            del self._open[saga.id, number]
            if relay is Relay.UNANSWERED:
                self._in_vain.put((saga.id, number), True)  # noqa: FBT003 - a set that forgets

    async def _answered(self, saga: Saga, number: int, ask: Ask) -> Relay:
        answer: Answer | None = None
        with anyio.CancelScope() as asking:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._withdraw, saga.id, number, asking)
                answer = await ask(saga, number)
                watching.cancel_scope.cancel()
        if answer is not None:
            return await self.append(saga.id, number, answer)
        now = await self._shop.log.load(saga.id)
        return Relay.UNANSWERED if is_asked(now.step(number)) else Relay.SETTLED

    async def _withdraw(self, saga_id: str, number: int, asking: anyio.CancelScope) -> None:
        """Take the question back from the client once it is settled elsewhere."""
        seen = 0
        with suppress(LogError):  # an answer that cannot be stored meets it too
            while is_asked((await self._shop.log.load(saga_id)).step(number)):
                seen = await self._shop.log.wait_for_change(seen)
            asking.cancel()
