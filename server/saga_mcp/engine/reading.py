"""Read-only calls: no saga, no step; recorded only where reads are audited (SEMANTICS.md S11.2)."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.events import ReadRecorded
from saga_mcp.domain.frozen import PartSpec
from saga_mcp.domain.hiding import without
from saga_mcp.engine.port import Caller, CallReply
from saga_mcp.engine.supervise import within
from saga_mcp.engine.workshop import Workshop
from saga_mcp.tools.port import Arguments, CallContext, Landed, Lost, Missed, Tool, ToolAnswer
from saga_mcp.tools.unsent import Unsent
from saga_tools.server import Report

_log = structlog.get_logger(__name__)


class ReadOnlyCalls:
    """The read-only calls of this process."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._unrecorded: set[anyio.Event] = set()

    async def call(
        self, tool: Tool, args: Arguments, caller: Caller, audited_in: str, secret: Sequence[str] = ()
    ) -> CallReply:
        """Call a read-only tool and pass on what it said; an answer that does not come in time changed nothing.

        Args:
            tool: what is called.
            args: its arguments.
            caller: is told how far it has come, if that was asked for.
            audited_in: the saga in which the call is recorded, after its answer; empty: in none.
            secret: names of arguments that are not recorded.
        """
        reply: CallReply | None = None
        try:
            reply = await self._read(tool, args, caller.report)
            return reply
        finally:
            # Nobody waits for that, least of all a caller who has gone.
            if audited_in and not self._tasks.cancel_scope.cancel_called:
                recordable = without(args.json, secret)
                read = ReadRecorded(tool=tool.pair.tool, is_error=reply is None or reply.code != "", args=recordable)
                recorded = anyio.Event()
                self._unrecorded.add(recorded)
                self._tasks.start_soon(self._record, audited_in, read, recorded)

    async def recorded(self) -> None:
        """Return when every read that was answered is recorded."""
        while self._unrecorded:
            await next(iter(self._unrecorded)).wait()

    async def _record(self, saga_id: str, read: ReadRecorded, recorded: anyio.Event) -> None:
        try:
            await self._shop.record(saga_id, lambda _saga, _driving: (read,))
        except SagaQuarantined as error:
            _log.warning("read_not_recorded", saga_id=saga_id, tool=read.tool, reason=error.reason)
        except Exception:  # noqa: BLE001 - it runs beside all sagas, and must end none of them
            _log.exception("read_not_recorded", saga_id=saga_id, tool=read.tool)
        finally:
            self._unrecorded.discard(recorded)
            recorded.set()

    async def _read(self, tool: Tool, args: Arguments, report: Report | None) -> CallReply:
        context = CallContext(saga_id="", number=0, key="", attempt=1, register_undo=_no_undo, report=report)
        limit = min(tool.pair.timeout_s, self._shop.settings.reply_within_s)
        match await within(limit, lambda: tool.call(args, context), self._tasks, self._shop.clock):
            case Landed(answer=answer):
                return CallReply(answer=answer)
            case Missed(answer=answer):
                return CallReply(answer=answer, code="step_failed")
            case Unsent(reason=reason):
                return CallReply(code="upstream_down", unsent=reason)
            case Lost(reason=reason):
                return CallReply(answer=_error(f"The read got no answer: {reason}."), code="step_failed")
            case None:
                message = "The read did not answer in time. It changed nothing."
                return CallReply(answer=_error(message), code="step_failed")


async def _no_undo(_part: PartSpec) -> None:
    message = "a read-only tool has nothing to undo"
    raise RuntimeError(message)


def _error(message: str) -> ToolAnswer:
    return ToolAnswer(content=({"type": "text", "text": message},), is_error=True)
