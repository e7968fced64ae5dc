"""One saga as a test sees it: an agent's calls, and what became of the saga.

What is known of a saga is shared by every agent that works on it, and read anew after each call, so that a test can
assert on plain attributes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import anyio

from saga_mcp.app import App
from saga_mcp.cli.timeline import timeline
from saga_mcp.domain.attention import Item, items, reported_state, summary
from saga_mcp.domain.errors import Refused
from saga_mcp.domain.machine import apply
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonValue, StepState
from saga_mcp.engine.port import Caller, CallReply
from saga_mcp.log.port import Record
from saga_mcp.testing.errors import CallFailed, ServerDied
from saga_mcp.tools.python import PythonTool
from saga_mcp.tools.unsent import InvalidArguments
from saga_tools.server import jsonable

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long a saga may take to come to rest before the test fails."""


@dataclass(slots=True)
class Known:
    """What is known of one saga, as of the last call."""

    id: str = ""
    saga: Saga = field(default_factory=lambda: Saga(id=""))
    records: list[Record] = field(default_factory=list[Record])
    undone: list[int] = field(default_factory=list[int])
    """Numbers of the steps in the order in which they were undone."""
    opening: anyio.Lock = field(default_factory=anyio.Lock)
    """Calls of a parallel first turn open one saga."""

    def learn(self, record: Record) -> None:
        """Fold one event in."""
        self.records.append(record)
        self.saga = apply(self.saga, record.event)
        number = getattr(record.event, "step", 0)
        if number and self.saga.step(number).state is StepState.COMPENSATED and number not in self.undone:
            self.undone.append(number)


class Asks(Protocol):
    """Whoever runs the servers."""

    async def ask(self, work: Callable[[App], Awaitable[T]]) -> tuple[T] | None:
        """Do something with the server that runs; None: it died meanwhile."""
        ...


class HarnessSaga:
    """A saga, in the hands of one agent. Made by `Harness.saga`; opened by the first call."""

    def __init__(self, servers: Asks, agent: str, known: Known) -> None:
        self._servers = servers
        self._agent = agent
        self._known = known

    async def begin(self, purpose: str = "") -> str:
        """Open the saga, where no call did yet, and return its id."""
        async with self._known.opening:
            if not self._known.id:
                saga = await self._ask("saga_begin", lambda app: app.engine.begin(self._caller, purpose=purpose))
                self._known.id = saga.id
                self._known.saga = Saga(id=saga.id)
                await self._look()
        return self._known.id

    async def call(self, tool: str, /, **arguments: object) -> Any:  # noqa: ANN401 - whatever the tool returns
        """Call a tool in this saga, and return what it returned.

        Args:
            tool: Its name, as agents see it.
            arguments: Its arguments; whatever JSON does not know, such as a date, is written as the server would.

        Raises:
            CallFailed: It failed, is in doubt, or was refused; `code` says which.
            ServerDied: A failure with `when="crash"` struck.
        """
        saga_id = await self.begin()
        given = {name: jsonable(value) for name, value in arguments.items()}
        reply, value = await self._ask(tool, lambda app: self._called(app, tool, given, saga_id))
        if reply.code:
            message = "no answer" if reply.answer is None else reply.answer.text
            raise CallFailed(tool, reply.code, message)
        return value

    async def _called(self, app: App, tool: str, given: dict[str, JsonValue], saga_id: str) -> tuple[CallReply, object]:
        reply = await app.engine.call(tool, given, saga_id=saga_id, caller=self._caller)
        return reply, None if reply.code else _value(app, tool, reply)

    async def commit(self, *, accept_failed: Sequence[int] = ()) -> None:
        """Keep everything.

        Raises:
            CallFailed: It was refused; the message has every reason.
        """
        saga_id = await self.begin()
        await self._ask("saga_commit", lambda app: app.engine.commit(saga_id, by="agent", accept_failed=accept_failed))

    async def savepoint(self, name: str) -> None:
        """Set a mark that `abort` can go back to."""
        saga_id = await self.begin()
        await self._ask("saga_savepoint", lambda app: app.engine.savepoint(saga_id, name))

    async def abort(self, *, reason: str = "", to_savepoint: str | None = None) -> None:
        """Undo, and return once the saga is at rest; a server that dies on the way is survived.

        Raises:
            CallFailed: It was refused.
        """
        saga_id = await self.begin()
        with suppress(ServerDied):  # the wish was stored before anything was undone
            await self._ask(
                "saga_abort",
                lambda app: app.engine.abort(saga_id, cause="agent", reason=reason, to_savepoint=to_savepoint),
            )
        await self.rest()

    async def revert(self, *, step: int = 0, reason: str = "") -> HarnessSaga:
        """Undo after the commit, as an operator does; return the saga that does it, at rest.

        Args:
            step: Only this one; default: all that can be undone.
            reason: Why, as it is stored.

        Raises:
            CallFailed: It was refused.
            ServerDied: The server died before it was stored.
        """
        saga_id, before = self.id, len(self._known.saga.reverted)
        order = RevertOrder(by="a test", reason=reason, step=step)
        try:
            await self._ask("revert", lambda app: app.engine.revert(saga_id, order))
        except ServerDied:
            if len(self._known.saga.reverted) == before:
                raise
        known = Known(id=self._known.saga.reverted[-1].revert)
        known.saga = Saga(id=known.id)
        reverting = HarnessSaga(self._servers, self._agent, known)
        await reverting.rest()
        return reverting

    async def rest(self) -> None:
        """Return once nothing of the saga runs or is due any more.

        Raises:
            TimeoutError: That took longer than ten seconds.
        """
        saga_id = self.id
        with anyio.fail_after(PATIENCE_S):
            while await self._servers.ask(lambda app: app.engine.rest(saga_id)) is None:
                pass  # the next server goes on with it
        await self._look()

    @property
    def id(self) -> str:
        """The saga's id, which every agent that joins passes on."""
        if not self._known.id:
            raise RuntimeError("no call has opened this saga yet: `await saga.begin()` does")
        return self._known.id

    @property
    def state(self) -> str:
        """`active`, `committed`, `compensating`, `compensated` or `needs_attention`."""
        return reported_state(self._known.saga)

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Each step's tool and state, such as `("charge", "compensated")`, in order."""
        return [(_bare(step.tool), step.state.value) for step in self._known.saga.steps]

    @property
    def undone(self) -> list[str]:
        """The tools whose steps were undone, in the order in which that happened."""
        return [_bare(self._known.saga.step(number).tool) for number in self._known.undone]

    @property
    def items(self) -> tuple[Item, ...]:
        """What waits for a person."""
        return items(self._known.saga)

    @property
    def cause(self) -> str:
        """Why it is being undone, or was: `agent`, `step_failed:2`, `invariant:NAME`; empty if it was not."""
        return self._known.saga.cause

    @property
    def summary(self) -> str:
        """The line that sums it up, such as `compensated: 2 undone, 0 open`."""
        return summary(self._known.saga)

    @property
    def timeline(self) -> str:
        """The audit trail, as `saga-mcp show --timeline` prints it."""
        return "\n".join(timeline(self._known.records))

    @property
    def _caller(self) -> Caller:
        return Caller(conversation=self._agent)

    async def _ask(self, tool: str, work: Callable[[App], Awaitable[T]]) -> T:
        try:
            answer = await self._servers.ask(work)
        except InvalidArguments as error:
            raise CallFailed(tool, "invalid_arguments", str(error)) from None
        except Refused as error:
            raise CallFailed(tool, error.code, str(error)) from None
        finally:
            await self._look()
        if answer is None:
            raise ServerDied(tool)
        return answer[0]

    async def _look(self) -> None:
        known = self._known
        news = await self._news() if known.id else ()
        while news:
            for record in news:
                if record.seq > known.saga.seq:  # two agents may look at once
                    known.learn(record)
            news = await self._news()

    async def _news(self) -> Sequence[Record]:
        answer = None
        while answer is None:
            answer = await self._servers.ask(
                lambda app: app.log.history(self._known.id, after_seq=self._known.saga.seq)
            )
        return answer[0]


def _bare(tool: str) -> str:
    return tool.rpartition(".")[2]


def _value(app: App, tool: str, reply: CallReply) -> object:
    """What the tool returned, as its own type."""
    found = app.catalogue.offered[tool]
    assert isinstance(found, PythonTool)  # noqa: S101 - there are no others yet
    registered = found.declared.registered
    if reply.saga is not None:
        return registered.decode_result(reply.saga.step(reply.step).result)
    structured = None if reply.answer is None else reply.answer.structured
    if registered.result.wraps and isinstance(structured, dict):
        structured = structured["result"]
    return registered.decode_result(structured)
