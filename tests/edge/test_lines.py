"""Lines to messages and back: whatever a tool returns, what is sent can be read."""

import json
from typing import Any, cast

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from saga_mcp.edge.lines import Unreadable, read_line, write_line

any_text = st.text(st.characters(exclude_categories=[]))  # surrogates, line ends and controls included
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=10,
)


@given(result=st.dictionaries(any_text, json_values, max_size=3), request_id=st.integers() | any_text)
def test_every_reply_becomes_one_readable_line(result: dict[str, Any], request_id: int | str) -> None:
    line = write_line(types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    assert isinstance(jsonrpc_message_adapter.validate_json(line, by_name=False), types.JSONRPCResponse)


@given(result=st.dictionaries(any_text, st.booleans() | st.integers() | st.text(), min_size=1, max_size=3))
def test_what_can_be_sent_as_it_is_is_not_touched(result: dict[str, Any]) -> None:
    try:
        json.dumps(result, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    line = write_line(types.JSONRPCResponse(jsonrpc="2.0", id=1, result=result))
    assert json.loads(line)["result"] == result


def test_a_reply_too_deep_to_be_written_becomes_an_error_with_its_id() -> None:
    value: object = "bottom"
    for _ in range(300):
        value = [value]
    line = write_line(types.JSONRPCResponse(jsonrpc="2.0", id=7, result={"value": value}))
    reply = cast("dict[str, Any]", json.loads(line))
    assert (reply["id"], reply["error"]["code"]) == (7, types.INTERNAL_ERROR)


def test_a_repaired_reply_may_be_as_deep_as_readers_accept() -> None:
    def reply(levels: int) -> dict[str, Any]:
        value: object = "half a pair: \ud83d"
        for _ in range(levels):
            value = [value]
        line = write_line(types.JSONRPCResponse(jsonrpc="2.0", id=7, result={"value": value}))
        return cast("dict[str, Any]", json.loads(line))

    around = 2  # the message, and its result
    assert "\ufffd" in json.dumps(reply(255 - around), ensure_ascii=False)
    assert reply(256 - around)["error"]["code"] == types.INTERNAL_ERROR


def test_a_notification_too_deep_to_be_written_is_an_error_of_ours() -> None:
    value: object = "bottom"
    for _ in range(300):
        value = [value]
    with pytest.raises(ValueError, match="depth"):
        write_line(types.JSONRPCNotification(jsonrpc="2.0", method="x", params={"value": value}))


@given(line=st.binary(max_size=50) | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_line_is_fatal(line: bytes) -> None:
    message = read_line(line)
    assert isinstance(message, Unreadable | types.JSONRPCNotification) or message.jsonrpc == "2.0"


def refused_ids(line: bytes) -> list[types.RequestId | None]:
    message = read_line(line)
    assert isinstance(message, Unreadable)
    return [reply.id for reply in message.replies]


@pytest.mark.parametrize("request_id", ["true", "null", "1.5", "{}"])
def test_a_refusal_by_id_needs_an_id_a_request_may_have(request_id: str) -> None:
    assert refused_ids(b'{"jsonrpc":"2.0","id":%s,"method":"x","params":[1]}' % request_id.encode()) == [None]


@given(value=json_values, levels=st.integers(0, 6), request_id=st.integers(0, 2**31) | st.text(max_size=5))
def test_whatever_lies_around_the_depths_the_id_is_found(value: object, levels: int, request_id: int | str) -> None:
    """Siblings, strings with brackets in them, and keys called `id` elsewhere mislead nobody."""
    deep = "[" * 3000 + "]" * 3000
    for _ in range(levels):
        deep = '{"id":1,"beside":%s,"deep":%s}' % (json.dumps(value), deep)  # noqa: UP031 - braces abound
    line = '{"params":{"x":%s,"id":2},"method":"x","id":%s,"jsonrpc":"2.0"}' % (deep, json.dumps(request_id))  # noqa: UP031 - the same
    assert refused_ids(line.encode("utf-8")) == [request_id]


def test_a_refused_number_costs_no_reply() -> None:
    """Python reads no integer of more than 4,300 digits; the caller would wait for ever."""
    line = b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"n":-%s}}' % (b"9" * 5000)
    refused = read_line(line)
    assert isinstance(refused, Unreadable)
    assert [reply.error.message for reply in refused.replies] == [
        "unreadable message: it holds an integer of more than 4,300 digits, which cannot be read; pass it as text"
    ]
    quoted = read_line(line.replace(b"-9", b'"-9').replace(b"9}}", b'9"}').replace(b'"x"', b"1"))
    assert isinstance(quoted, Unreadable)
    assert all("digits" not in reply.error.message for reply in quoted.replies)
    assert refused_ids(line) == [7]
    assert refused_ids(b'{"jsonrpc":"2.0","id":%s,"method":"x","params":{}}' % (b"9" * 5000)) == [None]
