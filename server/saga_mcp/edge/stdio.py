"""Serve one MCP client over stdin and stdout, and end the process in bounded time.

This is the way in and the way out (end of file, signals); the streams are `transport`'s. What a request means is the
server's business, and what must not be lost lives in the engine, reached through `drain`.

The SDK runs the protocol (`Server.run`, both eras). Its `stdio_server()` is not used: its writer, and with it the
process, dies of one lone surrogate in a tool's result; it drops an unreadable request without an answer, so the caller
waits for ever; and its reader thread cannot be cancelled and keeps the process alive after SIGTERM (measured on
mcp 2.3.0).
"""

from typing import Any

import anyio
import structlog
from mcp.server.lowlevel import NotificationOptions, Server

from saga_mcp.edge.stdout import WireStreams
from saga_mcp.edge.stopping import Drain, exit_after, stop_on_signal
from saga_mcp.edge.transport import Transport

_CLEANUP_AFTER_EOF_S = 1.0
_CLEANUP_AFTER_SIGNAL_S = 0.4
"""How long the caller may take to close what it opened once `serve_stdio` is done. Hosts send SIGKILL two seconds after
SIGTERM, of which `drain` has had 1.5."""

_log = structlog.get_logger(__name__)


async def serve_stdio(
    server: Server[Any],
    wire: WireStreams,
    *,
    drain: Drain,
    eof_grace_s: float = 10.0,
    sigterm_grace_s: float = 1.5,
) -> None:
    """Serve until the client closes stdin or a signal arrives, then drain and return; the process ends soon after.

    End of file: the SDK cancels the handlers, then `drain` has `eof_grace_s`. SIGTERM, SIGINT or CTRL_BREAK: new
    requests are refused, `drain` has `sigterm_grace_s`, and replies that become ready in that time are delivered; a
    signal during the end-of-file drain shortens it the same way. A second signal ends the process at once.

    This call owns the process. After it, the caller has a moment to close what it opened; then the process exits with
    status 0 whatever still runs, so that no stuck tool thread can keep it alive. Must run on the main thread, under
    asyncio, after `take_over_stdout`.
    """
    transport = Transport(wire)
    stop = stop_on_signal(hard_exit_after_s=sigterm_grace_s + _CLEANUP_AFTER_SIGNAL_S)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.replies.write_waiting)
        tasks.start_soon(_run_server, server, transport)
        tasks.start_soon(_end_on, stop, transport)
        await transport.ended.wait()
        if not stop.is_set():
            exit_after(eof_grace_s + _CLEANUP_AFTER_EOF_S)  # for a drain that cannot be cancelled
            await _drain(drain, eof_grace_s, unless=stop)
        if stop.is_set():
            with anyio.move_on_after(sigterm_grace_s, shield=True):
                await _drain(drain, sigterm_grace_s)
                await transport.all_answered()
        else:
            exit_after(_CLEANUP_AFTER_EOF_S)
        tasks.cancel_scope.cancel()


async def _run_server(server: Server[Any], transport: Transport) -> None:
    # Said outright, or Claude Code never listens for a changed tool list (anthropics/claude-code#88483).
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    await server.run(transport.requests, transport.replies, options)
    _log.info("input_ended")
    transport.ended.set()


async def _end_on(stop: anyio.Event, transport: Transport) -> None:
    await stop.wait()
    _log.info("stop_requested")
    transport.ended.set()


async def _drain(drain: Drain, grace_s: float, unless: anyio.Event | None = None) -> None:
    """Run `drain`, shielded and bounded; `unless` cuts it short."""
    with anyio.move_on_after(grace_s, shield=True) as scope:
        async with anyio.create_task_group() as tasks:
            if unless is not None:
                tasks.start_soon(_cancel_on, unless, scope)
            try:
                await drain(grace_s)
            except Exception:  # noqa: BLE001 - the process must end whatever the drain met
                # What was not recorded falls in doubt, which the next start resolves.
                _log.exception("drain_failed")
            tasks.cancel_scope.cancel()


async def _cancel_on(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
