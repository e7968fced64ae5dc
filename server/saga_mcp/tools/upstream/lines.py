"""Lines of JSON-RPC over the pipes of a process, as the two streams that the SDK's client runs on.

The SDK's own stdio client is not used: it takes quadratic time over a line of many megabytes, lets a call wait for ever
whose answer it cannot read, and gives out neither the process it started nor when that ended (measured on mcp 2.3.0).
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import cast

import anyio
import mcp_types as types
import structlog
from mcp.shared.message import SessionMessage

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.streams import Incoming, Lines, SdkStream
from saga_tools.server import jsonable, repaired

_log = structlog.get_logger(__name__)

_CHUNK_BYTES = 1 << 20


class FromProgram(Incoming):
    """What the program says; the SDK's `ReadStream`.

    Args:
        output: its stdout.
        name: what the log calls it.
    """

    def __init__(self, output: asyncio.StreamReader, name: str) -> None:
        self._lines = Lines(partial(output.read, _CHUNK_BYTES))
        self._name = name

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message; lines that are none are left out.

        Raises:
            EndOfStream: there will be no more.
        """
        while (line := await self._lines.next()) is not None:
            message = _message(line)
            if message is not None:
                return SessionMessage(message)
            _log.warning("upstream_line_unreadable", upstream=self._name, size=len(line))
        raise anyio.EndOfStream


class ToProgram(SdkStream):
    """What the program is told; the SDK's `WriteStream`.

    Args:
        into: its stdin.
        gone: whether it has ended.
    """

    def __init__(self, into: asyncio.StreamWriter, gone: anyio.Event) -> None:
        self._into = into
        self._gone = gone

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message. A failure on the way is not told here: the end of the program's output tells it.

        Raises:
            ClosedResourceError: nothing was written, the program has ended.
        """
        if self._gone.is_set() or self._into.is_closing():
            raise anyio.ClosedResourceError
        self._into.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        try:
            await self._into.drain()
        except ConnectionError:
            return


def _message(line: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return _repaired(line)


def _repaired(line: bytes) -> types.JSONRPCMessage | None:
    """Return an answer that JSON readers refuse, for a lone surrogate say, with what is wrong in it replaced.

    Its call has had its effect. Where nothing can be made of the answer, the call is answered with an error.
    """
    try:
        document = cast("object", json.loads(line.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None
    fields = cast("JsonObject", document) if isinstance(document, dict) else {}
    request_id = fields.get("id")
    if not isinstance(request_id, int | str) or "method" in fields:
        return None
    try:
        text = repaired(json.dumps(jsonable(fields), ensure_ascii=False))
        return types.jsonrpc_message_adapter.validate_python(json.loads(text), by_name=False)
    except ValueError:
        error = types.ErrorData(code=types.PARSE_ERROR, message="its answer is no JSON-RPC message")
        return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
