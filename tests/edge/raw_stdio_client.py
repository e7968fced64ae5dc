"""A client that speaks JSON-RPC lines over the pipes of a server process, for tests that need to misbehave."""

import json
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

BOUND_S = 30.0
Message = dict[str, Any]


def tool_call(request_id: object, name: str, **arguments: object) -> Message:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def text_of(reply: Message) -> str:
    return cast("str", reply["result"]["content"][0]["text"])


class RawClient:
    """A client that speaks lines, so that ids, cancellations and end of file are under the test's control."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stderr is not None
        self.process = process
        self.stdin = process.stdin
        # Absent where the test holds the reading end itself.
        self._stdout = BufferedByteReceiveStream(process.stdout or process.stderr)
        self._stderr = BufferedByteReceiveStream(process.stderr)

    async def send(self, message: Message | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        await self.stdin.send(line + b"\n")

    async def receive(self) -> Message:
        with anyio.fail_after(BOUND_S):
            line = await self._stdout.receive_until(b"\n", 20_000_000)
        return cast("Message", json.loads(line))

    async def call(self, name: str, request_id: object = "call", **arguments: object) -> Message:
        await self.send(tool_call(request_id, name, **arguments))
        return await self.receive()

    async def initialize(self, revision: str = "2025-11-25") -> Message:
        client = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        await self.send({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": client})
        reply = await self.receive()
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply

    async def logged(self, event: str) -> None:
        """Wait until the server has logged `event`."""
        with anyio.fail_after(BOUND_S):
            while event.encode() not in await self._stderr.receive_until(b"\n", 1_000_000):
                pass

    async def exits(self, within_s: float, *, status: int = 0) -> tuple[list[Message], str]:
        """Return what was still on stdout, as messages, and on stderr, once the process has ended by itself."""
        with anyio.fail_after(within_s):
            returncode = await self.process.wait()
        out, err = await rest_of(self._stdout), await rest_of(self._stderr)
        assert returncode == status, err.decode()
        return [cast("Message", json.loads(line)) for line in out.splitlines()], err.decode()


async def rest_of(stream: BufferedByteReceiveStream) -> bytes:
    rest = bytearray()
    with anyio.fail_after(BOUND_S):
        try:
            while True:
                rest += await stream.receive()
        except anyio.EndOfStream:
            return bytes(rest)


@asynccontextmanager
async def started(
    command: Sequence[str], *, env: Mapping[str, str], stdout: int = subprocess.PIPE, cwd: Path | None = None
) -> AsyncGenerator[RawClient]:
    """Start `command`, and make sure it has ended when the block does."""
    process = await anyio.open_process(command, stdout=stdout, env=env, cwd=cwd)
    try:
        yield RawClient(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()
