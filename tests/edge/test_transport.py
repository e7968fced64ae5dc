"""What hosts use in place of pipes: sockets, as programs for Node do, and files."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.edge.raw_stdio_client import BOUND_S, tool_call
from tests.edge.test_stdio_transport import ENVIRONMENT, TOY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes there are read in a thread, sockets never")

HELLO = {
    "jsonrpc": "2.0",
    "id": "init",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


def _line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def test_a_host_that_speaks_over_sockets_is_served_with_messages_of_any_size(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, str(TOY), str(tmp_path)]
    async with await anyio.open_process(
        command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL, env=ENVIRONMENT
    ) as process:
        theirs.close()
        ours.settimeout(BOUND_S)
        replies = ours.makefile("rb")

        def talk() -> list[object]:
            ours.sendall(_line(HELLO))
            heard = [json.loads(replies.readline())["id"]]
            ours.sendall(_line(tool_call("limit", "limit_sockets")))  # which is not to touch the client's
            heard.append(json.loads(replies.readline())["id"])
            for number, size in enumerate((1, 3_000, 300_000, 5_000_000)):
                ours.sendall(_line(tool_call(number, "echo", text="x" * size)))
                reply = json.loads(replies.readline())
                heard.append((reply["id"], len(reply["result"]["content"][0]["text"])))
            ours.shutdown(socket.SHUT_WR)
            return heard

        heard = await anyio.to_thread.run_sync(talk)
        with anyio.fail_after(BOUND_S):
            assert await process.wait() == 0
    replies.close()
    ours.close()
    assert heard == ["init", "limit", (0, 1), (1, 3_000), (2, 300_000), (3, 5_000_000)]


@pytest.mark.slow
async def test_replies_that_a_slow_client_lets_pile_up_arrive_whole(tmp_path: Path) -> None:
    sizes = [200_000 if number % 2 else 10 for number in range(40)]
    command = [sys.executable, str(TOY), str(tmp_path)]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(_line(HELLO))
        for number, size in enumerate(sizes):
            await process.stdin.send(_line(tool_call(number, "echo", text=str(number % 10) * size)))
        received = bytearray()
        with anyio.fail_after(BOUND_S):
            while received.count(b"\n") <= len(sizes):
                received += await process.stdout.receive(4096)
        process.kill()
    replies = [json.loads(line) for line in received.splitlines()][1:]
    texts = {reply["id"]: reply["result"]["content"][0]["text"] for reply in replies}
    assert texts == {number: str(number % 10) * size for number, size in enumerate(sizes)}


async def test_a_stream_that_somebody_made_non_blocking_is_served_all_the_same(tmp_path: Path) -> None:
    """Node shares its pipes with children like that."""
    requests, to_server = os.pipe()
    from_server, replies = os.pipe()
    for fd in (requests, replies):
        os.set_blocking(fd, False)
    command = [sys.executable, str(TOY), str(tmp_path)]
    async with await anyio.open_process(
        command, stdin=requests, stdout=replies, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    ) as process:
        os.close(requests)
        os.close(replies)

        def talk() -> list[object]:
            with os.fdopen(to_server, "wb", buffering=0) as sending, os.fdopen(from_server, "rb") as receiving:
                sending.write(_line(HELLO))
                heard = [json.loads(receiving.readline())["id"]]
                sending.write(_line(tool_call(1, "echo", text="x" * 1_000_000)))
                heard.append(len(json.loads(receiving.readline())["result"]["content"][0]["text"]))
                return heard

        heard = await anyio.to_thread.run_sync(talk)
        with anyio.fail_after(BOUND_S):
            assert await process.wait() == 0
    assert heard == ["init", 1_000_000]


@pytest.mark.slow
async def test_garbage_from_a_client_that_does_not_read_stops_neither_calls_nor_the_end(tmp_path: Path) -> None:
    command = [sys.executable, str(TOY), str(tmp_path)]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        await process.stdin.send(_line(HELLO) + _line(tool_call(1, "echo", text="x" * 500_000)))  # fills the pipe
        await process.stdin.send(b"garbage\n" * 200 + _line(tool_call(2, "wait_for_ever")))
        await process.stdin.aclose()
        with anyio.fail_after(BOUND_S):
            assert await process.wait() == 0
    assert (tmp_path / "cancelled").exists()  # the call after the garbage had begun


async def test_requests_can_come_from_a_file(tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    requests.write_bytes(_line(HELLO))
    with requests.open("rb") as file, (tmp_path / "replies").open("wb") as replies:
        process = await anyio.open_process(
            [sys.executable, str(TOY), str(tmp_path)],
            stdin=file,
            stdout=replies,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ENVIRONMENT},
        )
        with anyio.fail_after(BOUND_S):
            assert await process.wait() == 0
    assert json.loads((tmp_path / "replies").read_text(encoding="utf-8"))["id"] == "init"
