"""JSON-RPC messages as lines of UTF-8, where neither side's mistake may cost more than the one message.

Apart from the stdio transport because it is pure: bytes in, messages out. The rule inbound is to refuse what cannot be
read, never to repair it, since an undo is built from the very values the client sent. The rule outbound is the
opposite: the tool has acted, so its reply is repaired rather than lost.
"""

import json
from dataclasses import dataclass
from typing import cast

import mcp_types as types

from saga_mcp.domain.values import JsonValue
from saga_mcp.edge.clean import clean

_REFUSAL = (
    "unreadable message: expected one JSON-RPC object per line, in UTF-8, no lone surrogates, under 200 levels deep"
)
_DEEPEST = 255
_LONGEST_ID = 100
_UNSENDABLE = "the call ended, but its reply cannot be written as JSON"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that is no message, with an error reply for each request id that could be made out in it."""

    replies: tuple[types.JSONRPCError, ...]


def read_line(line: bytes) -> types.JSONRPCMessage | Unreadable:
    """Return the message in `line`.

    A line without a recognisable request id gets no reply: MCP knows no reply without an id, and strict clients treat
    one as a broken connection.
    """
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return Unreadable(replies=tuple(_refusal(request_id) for request_id in _request_ids(line)))


def write_line(message: types.JSONRPCMessage) -> bytes:
    r"""Return `message` as one line of valid JSON and UTF-8, `\n` included.

    Lone surrogates become U+FFFD, and NaN and the infinities become null. A reply nested deeper than JSON readers
    accept (255 levels) turns into an error reply with the same id.

    Raises:
        ValueError: a notification or a request of ours that cannot be written.
    """
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    except ValueError:
        text = _repaired(message)
    return text.encode() + b"\n"


def _repaired(message: types.JSONRPCMessage) -> str:
    try:
        # Not in JSON mode, which refuses some lone surrogates; what the SDK hands down is plain JSON values already.
        plain = cast("JsonValue", message.model_dump(by_alias=True, exclude_unset=True))
        _require_readable(plain)
        return json.dumps(clean(plain), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return _error(message.id, types.INTERNAL_ERROR, _UNSENDABLE).model_dump_json(exclude_unset=True)
        raise


def _require_readable(value: JsonValue, levels: int = _DEEPEST) -> None:
    if not isinstance(value, dict | list):
        return
    if not levels:
        raise ValueError("nested beyond the depth that JSON readers accept")
    for item in value.values() if isinstance(value, dict) else value:
        _require_readable(item, levels - 1)


def _request_ids(line: bytes) -> list[types.RequestId]:
    """Return the ids of the requests in a line that is no message; the standard decoder is more lenient than ours."""
    try:
        # Python refuses integers of more than 4,300 digits, and with them the whole line.
        document = cast("object", json.loads(line.decode("utf-8", "replace"), parse_int=_bounded))
    except (ValueError, RecursionError):
        return []
    # An array is a batch, which only revision 2025-03-26 had: each of its requests is refused by name.
    requests = cast("list[object]", document) if isinstance(document, list) else [document]
    ids: list[types.RequestId] = []
    for request in requests:
        match request:
            case {"method": str(), "id": int() | str() as request_id} if not isinstance(request_id, bool):
                ids.append(request_id)
            case _:
                pass
    return ids


def _bounded(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_ID else None


def _refusal(request_id: types.RequestId) -> types.JSONRPCError:
    return _error(request_id, types.INVALID_REQUEST, _REFUSAL)


def _error(request_id: types.RequestId | None, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))
