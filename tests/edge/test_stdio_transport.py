"""The stdio transport, seen from the client's end of the pipes: a toy server in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, StdioServerParameters
from tests.edge.raw_stdio_client import BOUND_S, Message, RawClient, rest_of, started, text_of, tool_call

AT_ONCE_S = 6.0
"""Well under the ten seconds that a drain may take after end of file; a busy machine needs a part of it."""
TOY = Path(__file__).with_name("toy_stdio_server.py")
SOURCES = Path(__file__).parents[2] / "server"

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and descriptors")


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCES)}


def toy(scratch: Path, *, stdout: int = subprocess.PIPE) -> AbstractAsyncContextManager[RawClient]:
    return started([sys.executable, str(TOY), str(scratch)], env=ENVIRONMENT, stdout=stdout)


def drains(scratch: Path) -> list[str]:
    """The seconds each drain was given, in order."""
    return (scratch / "drained").read_text(encoding="utf-8").split()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[RawClient]:
    async with toy(tmp_path) as raw:
        await raw.initialize()
        yield raw


# Both eras


@pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")]
)
async def test_the_sdk_client_calls_a_tool_in_either_era(
    tmp_path: Path, mode: Literal["legacy", "2026-07-28", "auto"], revision: str
) -> None:
    server = StdioServerParameters(command=sys.executable, args=[str(TOY), str(tmp_path)], env=ENVIRONMENT)
    with anyio.fail_after(BOUND_S):
        async with Client(server, mode=mode) as sdk:
            listed = await sdk.list_tools()
            result = await sdk.call_tool("echo", {"text": "hello"})
    assert "echo" in {tool.name for tool in listed.tools}
    assert result.structured_content == {"value": "hello", "revision": revision}
    assert (tmp_path / "returned").exists()


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_handshake_revision_is_served(tmp_path: Path, revision: str) -> None:
    async with toy(tmp_path) as raw:
        greeting = await raw.initialize(revision)
        reply = await raw.call("echo", text="hello")
    assert greeting["result"]["protocolVersion"] == revision
    assert greeting["result"]["capabilities"]["tools"] == {"listChanged": True}
    assert text_of(reply) == "hello"


# Nothing but protocol on the wire


@posix_only
async def test_nothing_that_is_printed_reaches_the_wire(client: RawClient) -> None:
    reply = await client.call("pollute")
    await client.stdin.aclose()
    rest, err = await client.exits(within_s=AT_ONCE_S)
    assert text_of(reply) == "polluted"
    assert rest == []
    sources = ["at import", "a tool", "os.write", "sys.__stdout__", "C,", "a thread", "a child ''", "a fork", "at exit"]
    assert [source for source in sources if source not in err] == []


@posix_only
async def test_a_host_that_closed_stderr_is_served_all_the_same(tmp_path: Path) -> None:
    request = tool_call(2, "pollute")
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
    command = f'exec "{sys.executable}" "{TOY}" "{tmp_path}" 2>&-'
    with anyio.fail_after(BOUND_S):
        async with await anyio.open_process(["/bin/sh", "-c", command], env=ENVIRONMENT, stderr=None) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            lines = BufferedByteReceiveStream(process.stdout)
            for message in (opening, request):
                await process.stdin.send(json.dumps(message).encode() + b"\n")
                reply = json.loads(await lines.receive_until(b"\n", 1_000_000))
            await process.stdin.aclose()
            assert await process.wait() == 0
            assert await rest_of(lines) == b""
    assert text_of(reply) == "polluted"


async def test_what_is_no_json_in_a_reply_is_repaired_rather_than_lost(client: RawClient) -> None:
    """The SDK's own writer, and with it the server, dies of a lone surrogate (mcp 2.3.0)."""
    result = await client.call("surrogate")
    failure = await client.call("fail_badly")
    assert result["result"]["structuredContent"]["value"] == ["half \ufffd, whole \U0001f600", None]
    assert failure["error"]["message"] == "half \ufffd"
    assert text_of(await client.call("echo", text="alive")) == "alive"


# What a client may get wrong


def request_line(request_id: int, text: bytes) -> bytes:
    return json.dumps(tool_call(request_id, "echo", text="TEXT")).encode().replace(b"TEXT", text)


DEEP = b"[" * 100_000 + b"]" * 100_000
PARSE_ERROR, INVALID_REQUEST = -32700, -32600

SILENT = {
    "blank": b"",
    "white-space": b" \t\r",
    "reply-with-a-bad-result": b'{"jsonrpc":"2.0","id":7,"result":5}',
    "reply-with-a-bad-error": b'{"jsonrpc":"2.0","id":null,"error":5}',
    "reply-to-nothing": b'{"jsonrpc":"2.0","id":7,"result":{}}',
    "call-as-notification": b'{"jsonrpc":"2.0","method":"tools/call"}',
    "notification-with-bad-params": b'{"jsonrpc":"2.0","method":"tools/call","params":[1]}',
    "deep-notification": b'{"jsonrpc":"2.0","method":"x","params":{"deep":' + DEEP + b"}}",
}


REFUSED: dict[str, tuple[bytes, int, list[int | str | None]]] = {
    "params-as-array": (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}', INVALID_REQUEST, [7]),
    "wrong-version": (b'{"jsonrpc":"1.0","id":7,"method":"tools/list"}', INVALID_REQUEST, [7]),
    "batch": (b"[" + request_line(7, b"x") + b"," + request_line(8, b"y") + b"]", INVALID_REQUEST, [7, 8]),
    "lone-surrogate-escape": (request_line(7, rb"half \ud83d"), INVALID_REQUEST, [7]),
    "invalid-utf-8-in-a-string": (request_line(7, b"\xff\xc0"), INVALID_REQUEST, [7]),
    "300-levels": (request_line(7, b'", "deep": ' + b"[" * 300 + b"]" * 300 + b', "x": "'), INVALID_REQUEST, [7]),
    "levels-before-the-id": (
        b'{"params":{"id":1,"deep":' + DEEP + b',"\\"]":"}"},"method":"x","id":"late","jsonrpc":"2.0"}',
        INVALID_REQUEST,
        ["late"],
    ),
    "levels-after-the-id": (request_line(7, b'", "deep": ' + DEEP + b', "x": "'), INVALID_REQUEST, [7]),
    "levels-in-a-batch": (
        b"[" + request_line(7, b'", "deep": ' + DEEP + b', "x": "') + b"," + request_line(8, b"y") + b"]",
        INVALID_REQUEST,
        [7, 8],
    ),
    "an-id-that-is-none": (b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}', INVALID_REQUEST, [None]),
    "an-id-that-is-null": (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', INVALID_REQUEST, [None]),
    "an-id-that-is-a-fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', INVALID_REQUEST, [None]),
    "no-method": (b'{"jsonrpc":"2.0","id":7}', INVALID_REQUEST, [None]),
    "garbage": (b"garbage", PARSE_ERROR, [None]),
    "binary": (b"\xff\xfe\x00", PARSE_ERROR, [None]),
    "cut": (request_line(7, b"x")[:-3], PARSE_ERROR, [None]),
    "brackets-never-closed": (b"[" * 100_000, PARSE_ERROR, [None]),
    "brackets-closed": (DEEP, INVALID_REQUEST, [None]),
    "empty-batch": (b"[]", INVALID_REQUEST, [None]),
    "null": (b"null", INVALID_REQUEST, [None]),
}


async def test_a_line_that_asks_for_nothing_is_not_answered(client: RawClient) -> None:
    for name, line in SILENT.items():
        await client.send(line)
        assert text_of(await client.call("echo", text=name)) == name


async def test_a_line_that_cannot_be_read_is_refused_by_its_id_or_with_the_id_null(client: RawClient) -> None:
    """JSON-RPC 2.0, section 5. The SDK's own reader drops such a line, and the caller waits for ever (mcp 2.3.0)."""
    for name, (line, code, ids) in REFUSED.items():
        await client.send(line)
        refusals = [await client.receive() for _ in ids]
        assert [(reply["id"], reply["error"]["code"]) for reply in refusals] == [(known, code) for known in ids], name
        assert text_of(await client.call("echo", text=name)) == name


async def test_a_line_of_five_megabytes_passes_both_ways(client: RawClient) -> None:
    text = "\u00e4" * 2_500_000
    assert text_of(await client.call("echo", text=text)) == text


async def test_the_same_id_twice_is_answered_twice(client: RawClient) -> None:
    for text in ("one", "two"):
        await client.send(tool_call(1, "echo", text=text))
    replies = [await client.receive(), await client.receive()]
    assert {(reply["id"], text_of(reply)) for reply in replies} == {(1, "one"), (1, "two")}
    assert text_of(await client.call("echo", text="alive")) == "alive"


# Cancellation


async def test_a_cancelled_request_is_never_answered(client: RawClient, tmp_path: Path) -> None:
    """Basic/utilities/cancellation: the receiver MUST NOT answer."""
    await client.send(tool_call(1, "wait_for_ever"))
    assert text_of(await client.call("echo", text="the call has started")) == "the call has started"
    await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert text_of(await client.call("echo", text="alive")) == "alive"
    await client.stdin.aclose()
    rest, _ = await client.exits(within_s=AT_ONCE_S)
    assert rest == []
    assert (tmp_path / "cancelled").exists()


# The way out


async def test_end_of_file_ends_an_idle_server_at_once(client: RawClient, tmp_path: Path) -> None:
    await client.stdin.aclose()
    rest, _ = await client.exits(within_s=AT_ONCE_S)
    assert rest == []
    assert drains(tmp_path) == ["10.0"]
    assert (tmp_path / "returned").exists()


async def test_a_client_that_leaves_before_its_first_request_leaves_nothing_behind(tmp_path: Path) -> None:
    async with toy(tmp_path) as raw:
        await raw.stdin.aclose()
        rest, _ = await raw.exits(within_s=BOUND_S)
        assert rest == []
        assert drains(tmp_path) == ["10.0"]


async def test_end_of_file_cancels_the_handlers_and_then_drains(client: RawClient, tmp_path: Path) -> None:
    await client.send(tool_call(1, "wait_for_ever"))
    assert text_of(await client.call("echo", text="the call has started")) == "the call has started"
    await client.stdin.aclose()
    rest, _ = await client.exits(within_s=AT_ONCE_S)
    assert [(reply["id"], reply["error"]["code"]) for reply in rest] == [(1, -32000)]
    assert (tmp_path / "cancelled").exists()
    assert drains(tmp_path) == ["10.0"]


async def test_a_tool_stuck_in_a_thread_does_not_keep_the_process_alive(client: RawClient) -> None:
    await client.send(tool_call(1, "stick_in_a_thread"))
    assert text_of(await client.call("echo", text="the call has started")) == "the call has started"
    await client.stdin.aclose()
    await client.exits(within_s=AT_ONCE_S)


async def test_a_drain_that_fails_does_not_keep_the_process_alive(client: RawClient) -> None:
    await client.call("fail_the_drain")
    await client.stdin.aclose()
    _, err = await client.exits(within_s=AT_ONCE_S)
    assert "drain_failed" in err


@posix_only
async def test_a_client_that_closes_its_reading_end_ends_the_server(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    async with toy(tmp_path, stdout=writing) as raw:
        os.close(writing)
        await raw.send(tool_call(1, "echo", text="into the void"))
        await raw.logged("client_gone")
        with anyio.fail_after(3):
            assert await raw.process.wait() == 0
        assert drains(tmp_path) == ["10.0"]


async def test_a_client_that_stops_reading_cannot_keep_the_process_alive(client: RawClient) -> None:
    for number in range(3):
        await client.send(tool_call(number, "echo", text="x" * 500_000))
    await client.stdin.aclose()
    with anyio.fail_after(5):
        assert await client.process.wait() == 0


@posix_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_server_at_once_though_stdin_is_open(
    client: RawClient, tmp_path: Path, number: signal.Signals
) -> None:
    client.process.send_signal(number)
    rest, _ = await client.exits(within_s=AT_ONCE_S)
    assert rest == []
    assert drains(tmp_path) == ["1.5"]


@posix_only
async def test_a_reply_that_becomes_ready_while_a_signal_drains_is_delivered(client: RawClient) -> None:
    await client.send(tool_call(1, "wait_for_drain"))
    assert text_of(await client.call("echo", text="the call has started")) == "the call has started"
    client.process.terminate()
    rest, _ = await client.exits(within_s=AT_ONCE_S)
    assert [text_of(reply) for reply in rest] == ["ready in time"]


@posix_only
async def test_a_listening_client_does_not_delay_the_end(tmp_path: Path) -> None:
    envelope: Message = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: Message = {"notifications": {"toolsListChanged": True}, "_meta": envelope}
    async with toy(tmp_path) as raw:
        await raw.send({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
        acknowledged = await raw.receive()
        raw.process.terminate()
        await raw.exits(within_s=AT_ONCE_S)
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"


@pytest.mark.slow
@posix_only
async def test_a_slow_drain_is_cut_off_before_the_host_kills(client: RawClient) -> None:
    """Hosts send SIGKILL two seconds after SIGTERM (both SDKs' clients)."""
    await client.call("drain_slowly")
    client.process.terminate()
    await client.exits(within_s=AT_ONCE_S)


@posix_only
async def test_a_request_that_arrives_after_the_signal_is_refused(client: RawClient) -> None:
    await client.call("drain_slowly")
    client.process.terminate()
    await client.logged("stop_requested")
    reply = await client.call("echo", text="too late")
    assert reply["error"]["code"] == -32000


@posix_only
async def test_a_second_signal_ends_the_process_at_once(client: RawClient) -> None:
    await client.call("drain_slowly")
    client.process.terminate()
    await client.logged("stop_requested")
    client.process.send_signal(signal.SIGINT)
    await client.exits(within_s=1.4, status=128 + signal.SIGINT)


@pytest.mark.slow
@posix_only
async def test_a_signal_shortens_the_drain_after_end_of_file(client: RawClient, tmp_path: Path) -> None:
    """The ladder of the hosts: close stdin, SIGTERM two seconds later, SIGKILL two seconds after that."""
    await client.call("drain_slowly")
    await client.stdin.aclose()
    await client.logged("draining")
    client.process.terminate()
    await client.exits(within_s=AT_ONCE_S)
    assert drains(tmp_path) == ["10.0", "1.5"]


@pytest.mark.slow
@posix_only
async def test_a_tool_that_blocks_the_event_loop_cannot_outlive_a_signal(client: RawClient) -> None:
    await client.send(tool_call(1, "block_the_loop"))
    await client.logged("blocking")
    client.process.terminate()
    await client.exits(within_s=AT_ONCE_S)
