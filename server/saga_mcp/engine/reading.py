"""Read-only calls: no saga, no step, nothing stored (SEMANTICS.md S11.2)."""

from __future__ import annotations

from anyio.abc import TaskGroup

from saga_mcp.domain.frozen import PartSpec
from saga_mcp.engine.port import CallReply
from saga_mcp.engine.supervise import within
from saga_mcp.engine.workshop import Workshop
from saga_mcp.tools.port import Arguments, CallContext, Landed, Lost, Missed, Tool, ToolAnswer


async def read(tool: Tool, args: Arguments, shop: Workshop, tasks: TaskGroup) -> CallReply:
    """Call a read-only tool and pass on what it said; an answer that does not come in time changed nothing."""
    context = CallContext(saga_id="", number=0, key="", attempt=1, register_undo=_no_undo)
    limit = min(tool.pair.timeout_s, shop.settings.reply_within_s)
    match await within(limit, lambda: tool.call(args, context), tasks, shop.clock):
        case Landed(answer=answer):
            return CallReply(answer=answer)
        case Missed(answer=answer):
            return CallReply(answer=answer, code="step_failed")
        case Lost(reason=reason):
            return CallReply(answer=_error(f"The read got no answer: {reason}."), code="step_failed")
        case None:
            return CallReply(answer=_error("The read did not answer in time. It changed nothing."), code="step_failed")


async def _no_undo(_part: PartSpec) -> None:
    message = "a read-only tool has nothing to undo"
    raise RuntimeError(message)


def _error(message: str) -> ToolAnswer:
    return ToolAnswer(content=({"type": "text", "text": message},), is_error=True)
