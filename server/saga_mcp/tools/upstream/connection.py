"""One upstream while it is served: a task that owns its client, notices its death, and connects it again.

Calls run in whoever's task asks for them and only borrow the client: a call knows from here whether it was sent, what
came of it, and, where nothing did, whether it has ended.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import mcp_types as types
import structlog
from anyio.abc import TaskGroup
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.running import describe
from saga_mcp.tools.unsent import UpstreamDown
from saga_mcp.tools.upstream.declared import DeclaredUpstream
from saga_mcp.tools.upstream.elsewhere import outlives_us
from saga_mcp.tools.upstream.fit import Misfit, compared
from saga_mcp.tools.upstream.known import KnownTool, KnownTools
from saga_mcp.tools.upstream.listing import ToolLists
from saga_mcp.tools.upstream.opening import end_with, opened, streams
from saga_mcp.tools.upstream.process import Process
from saga_mcp.tools.upstream.tap import Sending, Tap, sending
from saga_tools import Retry
from saga_tools.server import Report

_log = structlog.get_logger(__name__)

_AGAIN = Retry(first_delay_s=0.5, max_delay_s=60.0)
"""How far apart an upstream is started that does not come up."""
_STEADY_S = 60.0
"""Up for so long, it is started again at once when it ends."""
_CONNECT_WITHIN_S = 180.0
"""A first `npx` or `uvx` downloads what it starts."""
_GONE_WITHIN_S = 10.0
"""How long a call whose connection broke waits to learn whether its process has ended."""
_LONGEST_SAID = 200
"""How long answers are read that were under way when its process ended."""
_OF_THE_CLIENT = frozenset({types.PARSE_ERROR, types.CONNECTION_CLOSED})
"""Codes with which the SDK's client says that a stream broke off, or cannot be read."""
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


class State(StrEnum):
    """How an upstream is."""

    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    """It did not come up, and is started again after a while."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The upstream answered with a result, an error of the tool included."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class Declined:
    """The upstream answered with an error of the protocol."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """Nothing of the call reached the upstream."""

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The connection broke before there was an answer."""

    reason: str
    end_known: bool
    """Its process is proved dead, with all that this has started."""


Heard: TypeAlias = Answered | Declined | NotSent | Broken


@dataclass(slots=True, eq=False)
class _Link:
    """One connection."""

    client: Client
    tap: Tap
    ended: anyio.Event = field(default_factory=anyio.Event)
    process_ended: bool = False
    under_way: int = 0
    """Calls that wait for their answer."""

    @contextlib.contextmanager
    def carrying(self) -> Generator[None]:
        """A call is under way inside the block; one that was left ends with the last of them."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            if not self.under_way and self.tap.left.is_set():
                self.tap.ended.set()


class Upstream:
    """One upstream of this process.

    Args:
        declared: What the config says.
        known: What is known of its tools, from now or from earlier starts.
        changed: Called when that has changed.
    """

    def __init__(self, declared: DeclaredUpstream, known: KnownTools, changed: Callable[[], None]) -> None:
        self.declared = declared
        self.name = declared.name
        self._outlives_us = outlives_us(declared.place, declared.scope)
        self._known = known
        self._changed = changed
        self._state = State.STARTING
        self._reason = ""
        self.misfit: Misfit | None = None
        """Why its preset was not made for it, as it came up last."""
        self._said = ""
        """What its process said last."""
        self._link: _Link | None = None
        self._up_since = math.inf
        self._moved = anyio.Event()
        self._relist = anyio.Event()
        self._lists = ToolLists()
        self._mark: Callable[[], Path] | None = None
        self._turn = anyio.Lock() if declared.one_at_a_time else contextlib.nullcontext()

    @property
    def state(self) -> State:
        """How it is now."""
        return self._state

    @property
    def reason(self) -> str:
        """Why it is down."""
        return self._reason

    @property
    def tools(self) -> Mapping[str, KnownTool]:
        """Its tools by their names, as they were listed last."""
        return self._known.tools

    @property
    def left_out(self) -> Mapping[str, str]:
        """The tools of its last list that cannot be read, and why."""
        return self._lists.left_out

    def lacks(self, tool: str) -> str:
        """Why a tool is not there that the config names."""
        why = self.left_out.get(tool)
        return f"its tool {tool} cannot be read: {why}" if why else f"it has no tool {tool}"

    async def run(self, mark: Callable[[], Path] | None = None) -> None:
        """Keep it connected, for ever.

        Args:
            mark: Names a new file that whoever keeps a process of it has locked; None: nobody waits for its end.
        """
        self._mark = mark
        async with anyio.create_task_group() as links:
            failures = 0
            while True:
                self._move(State.STARTING)
                self._up_since = math.inf
                reason = await self._connection(links)
                came_up = self._up_since < math.inf
                if not came_up and self._said:
                    reason = f"{reason}: {self._said[:_LONGEST_SAID]}"
                failures = 0 if anyio.current_time() - self._up_since >= _STEADY_S else failures + 1
                _log.warning("upstream_lost" if came_up else "upstream_failed", upstream=self.name, reason=reason)
                if failures > 1 or not came_up:
                    self._move(State.DOWN, reason)
                    await anyio.sleep(random.uniform(0.5, 1.0) * _AGAIN.delay_s(failures))  # noqa: S311 - jitter

    async def _connection(self, links: TaskGroup) -> str:
        """Connect; why calls cannot go over the connection any more, which ends with the last of them."""
        over = anyio.Event()
        reasons: list[str] = []

        async def live() -> None:
            try:
                await self._live(over)
                reasons.append("it has ended")
            except Exception as error:  # noqa: BLE001 - whatever an upstream does, it costs only itself
                reasons.append(describe(error))
            finally:
                over.set()

        links.start_soon(live)
        await over.wait()
        return reasons[0] if reasons else "a call could not be sent"

    def _came_up(self, link: _Link) -> None:
        self._link = link
        self._up_since = anyio.current_time()
        self._move(State.UP)
        _log.info("upstream_connected", upstream=self.name, protocol=link.client.protocol_version)

    def _move(self, state: State, reason: str = "") -> None:
        self._state, self._reason = state, reason
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def _live(self, over: anyio.Event) -> None:
        """Connect, list the tools, and stay until the connection ends; `over` is set before where calls leave it.

        Afterwards what was in flight learns what became of its process.
        """
        link: _Link | None = None
        process: Process | None = None
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + _CONNECT_WITHIN_S) as connecting:
                async with (
                    opened(self.declared.place, self.name, self._mark) as (process, tap),
                    Client(self._lists.over(streams(tap)), message_handler=self._heard, cache=None) as client,
                ):
                    await self._list(client)
                    self.misfit = compared(self.declared, client.server_info, before=self.misfit)
                    connecting.deadline = math.inf
                    link = _Link(client, tap)
                    self._came_up(link)
                    await self._serve(link, process, over)
        finally:
            if self._link is link:
                self._link = None
            self._said = "" if process is None else process.said
            if link is not None:
                link.process_ended = process is not None and process.all_ended and not self._outlives_us
                link.ended.set()
        if connecting.cancelled_caught:
            raise TimeoutError(f"no answer within {_CONNECT_WITHIN_S:g} s")

    async def _serve(self, link: _Link, process: Process | None, over: anyio.Event) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._list_again, link.client)
            tasks.start_soon(self._listen, link.client)
            tasks.start_soon(self._leave, link, over)
            if process is not None:
                tasks.start_soon(end_with, process, link.tap)
            await link.tap.ended.wait()
            tasks.cancel_scope.cancel()

    async def _leave(self, link: _Link, over: anyio.Event) -> None:
        await link.tap.left.wait()
        if self._link is link:
            self._link = None
        over.set()

    async def _list_again(self, client: Client) -> None:
        while True:
            await self._relist.wait()
            self._relist = anyio.Event()
            try:
                await self._list(client)
            except Exception as error:  # noqa: BLE001 - what was listed before still holds
                _log.warning("upstream_list_failed", upstream=self.name, reason=describe(error))

    async def _listen(self, client: Client) -> None:
        """Hear of changes as the modern era tells them; servers of older ones tell them by themselves."""
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._relist.set()
        except (MCPError, RuntimeError, TimeoutError) as error:
            # It does not tell: then its list is what it was until it is connected again.
            _log.debug("upstream_does_not_tell", upstream=self.name, reason=str(error))

    async def _list(self, client: Client) -> None:
        tools = await self._lists.ask(client)
        for tool, why in self._lists.left_out.items():
            _log.warning("upstream_tool_left_out", upstream=self.name, tool=tool, reason=why)
        if await self._known.replace(tools):
            self._changed()

    async def _heard(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._relist.set()

    def require_up(self) -> None:
        """Refuse where it is known that a call could not be sent.

        Raises:
            UpstreamDown: it is down.
        """
        if self._state is State.DOWN:
            raise UpstreamDown(self.name, self._reason)

    async def ready(self, within_s: float) -> _Link:
        """Return the connection, which may be about to be made.

        Raises:
            UpstreamDown: it is down, or not up in time.
        """
        with anyio.move_on_after(within_s):
            while self._link is None:
                self.require_up()
                await self._moved.wait()
        if self._link is None:
            raise UpstreamDown(self.name, f"not up within {within_s:g} s")
        return self._link

    async def comes_up(self) -> None:
        """Return when it is up, however long that takes."""
        while self._link is None:
            await self._moved.wait()

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        may_stop: bool,
        ready_within_s: float,
        report: Report | None = None,
    ) -> Heard:
        """Call a tool, and wait for its answer for as long as there can be one.

        Args:
            tool: Its own name.
            arguments: Sent as they are.
            may_stop: Whether the upstream may be told to stop when nobody waits any more.
            ready_within_s: How long to wait for a connection that is being made, in seconds.
            report: Is told how far the call has come, which the upstream is asked for then.
        """
        async with self._turn:
            try:
                link = await self.ready(ready_within_s)
            except UpstreamDown as down:
                return NotSent(str(down))
            return await self._sent(link, Sending(may_stop=may_stop), tool, arguments, report)

    async def _sent(self, link: _Link, call: Sending, tool: str, arguments: JsonObject, report: Report | None) -> Heard:
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=arguments))
        try:
            with link.carrying(), sending(call):
                await link.client.session.send_request(request, _ANYTHING, progress_callback=report)
        except MCPError as error:
            if (heard := self._declined(call, error.error.code, error.error.message)) is not None:
                return heard
        except Exception as error:  # noqa: BLE001 - the client's opinion of an answer that is there; or it is torn down
            _log.debug("upstream_client_raised", upstream=self.name, error_type=type(error).__name__)
        if call.result is not None:
            return Answered(call.result)
        if not call.sent:
            return NotSent(f"{self.name} ended before anything was sent")
        with anyio.move_on_after(_GONE_WITHIN_S):
            await link.ended.wait()
        return Broken(f"the connection to {self.name} broke", end_known=link.process_ended)

    def _declined(self, call: Sending, code: int, message: str) -> Heard | None:
        """What an error in place of an answer means; over HTTP it may be the network's, not the upstream's."""
        if call.turned_away:
            return NotSent(f"{self.name}: {call.turned_away}")
        if call.unanswered or (call.streamed and code in _OF_THE_CLIENT):
            return Broken(f"{self.name}: {call.unanswered or message}", end_known=False)
        return Declined(code, message) if call.answered and call.result is None else None
