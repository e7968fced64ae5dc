"""JSON-RPC messages as lines of UTF-8, where neither side's mistake may cost more than the one message.

Apart from the stdio transport because it is pure: bytes in, messages out. The rule inbound is to refuse what cannot be
read, never to repair it, since an undo is built from the very values the client sent. The rule outbound is the
opposite: the tool has acted, so its reply is repaired rather than lost.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import mcp_types as types

from saga_mcp.domain.values import JsonValue
from saga_mcp.edge.clean import clean

_REFUSAL = (
    "unreadable message: expected one JSON-RPC object per line, in UTF-8, no lone surrogates, under 200 levels deep"
)
_TOO_LONG = "unreadable message: it holds an integer of more than 4,300 digits, which cannot be read; pass it as text"
_NO_JSON = "unreadable message: this line is no JSON"
_DEEPEST = 255
_LONGEST_ID = 100
_LONGEST_INTEGER = 4300
"""Digits that Python reads."""
_OUTCOMES = {"result", "error"}
_OUTLINE_LEVELS = 3
"""Of a batch, of a request in it, and of its parameters."""
_OUTLINE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]+|[\]}]+')
"""Strings, whose brackets do not count, and runs of brackets."""
_UNSENDABLE = "the call ended, but its reply cannot be written as JSON"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that is no message, with an error reply for each request in it, or for the line as a whole."""

    replies: tuple[types.JSONRPCError, ...]


def read_line(line: bytes) -> types.JSONRPCMessage | Unreadable:
    """Return the message in `line`.

    Where no id can be made out, the error has the id null, as JSON-RPC wants it. What is plainly a notification or a
    reply gets none: two sides that refuse each other's refusals would go on for ever.
    """
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return Unreadable(replies=tuple(_refusals(line)))
    if isinstance(message, types.JSONRPCNotification) and not message.method.startswith("notifications/"):
        # A request whose id is none, such as `true`, reads as a notification: its sender would wait for ever.
        return Unreadable(replies=replies) if (replies := tuple(_refusals(line))) else message
    return message


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


def _refusals(line: bytes) -> Iterator[types.JSONRPCError]:
    """An error for each request in a line that is no message; the standard decoder is more lenient than ours."""
    refusal = _REFUSAL

    def bounded(digits: str) -> int | None:
        nonlocal refusal
        if len(digits.lstrip("-")) > _LONGEST_INTEGER:
            refusal = _TOO_LONG
        return int(digits) if len(digits) <= _LONGEST_ID else None

    try:
        document = _document(line.decode("utf-8", "replace"), bounded)
    except ValueError:
        yield _error(None, types.PARSE_ERROR, _NO_JSON)
        return
    # An array is a batch, which only revision 2025-03-26 had: each of its requests is refused by name.
    batch = cast("list[object]", document) if isinstance(document, list) else []
    for request in batch or [None if isinstance(document, list) else document]:
        fields = cast("dict[str, object]", request) if isinstance(request, dict) else {}
        request_id = fields.get("id")
        is_call = isinstance(fields.get("method"), str)
        if is_call and isinstance(request_id, int | str) and not isinstance(request_id, bool):
            yield _error(request_id, types.INVALID_REQUEST, refusal)
        elif not _wants_no_reply(fields):
            yield _error(None, types.INVALID_REQUEST, refusal)


def _wants_no_reply(fields: Mapping[str, object]) -> bool:
    """Whether this is plainly a notification, or itself a reply."""
    return ("method" in fields and "id" not in fields) or ("method" not in fields and bool(fields.keys() & _OUTCOMES))


def _document(text: str, bounded: Callable[[str], int | None]) -> object:
    # Python refuses an integer that is too long, and with it the whole line.
    try:
        return cast("object", json.loads(text, parse_int=bounded))
    except RecursionError:
        return cast("object", json.loads(_outline(text), parse_int=bounded))


def _outline(text: str) -> str:
    """The text with null in place of what lies too deep, so that a request's id can be read all the same."""
    kept: list[str] = []
    level = start = 0
    for found in _OUTLINE.finditer(text):
        run = found[0]
        if run[0] in "[{":
            if level <= _OUTLINE_LEVELS < level + len(run):
                kept += (text[start : found.start() + _OUTLINE_LEVELS - level], "null")
            level += len(run)
        elif run[0] != '"':
            if level - len(run) <= _OUTLINE_LEVELS < level:
                start = found.end() - (_OUTLINE_LEVELS - level + len(run))
            level -= len(run)
    return "".join(kept) + text[start:] if level <= _OUTLINE_LEVELS else ""


def _error(request_id: types.RequestId | None, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))
