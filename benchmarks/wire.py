"""A client that costs as little as it can: lines over pipes, one request at a time, nothing async."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, cast

HERE = Path(__file__).parent
BARE = (sys.executable, str(HERE / "bare.py"))
REVISION = "2025-11-25"
_ENDS_WITHIN_S = 20
_SHOWN = 5_000
"""Bytes of what a server wrote to stderr, where it went wrong."""
_UP_WITHIN_S = 30


class WentWrong(Exception):
    """A server did not do what is to be measured, so there is nothing to measure."""


def configure(folder: Path) -> Path:
    """Write the config of the measured server into `folder`, and return its path."""
    config = folder / "saga.toml"
    config.write_text(
        f"""\
[saga]
name = "benchmark"
database = "sqlite:///saga.db"

[python.bench]
path = {json.dumps(f"{HERE / 'tools.py'}:registry")}
""",
        encoding="utf-8",
    )
    return config


def governed(config: Path) -> tuple[str, ...]:
    """The command line of the measured server."""
    return (str(Path(sys.executable).with_name("saga-mcp")), "serve", "--config", str(config))


class Connection:
    """One server process and the pipes to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._in = cast("IO[bytes]", process.stdin)
        self._out = cast("IO[bytes]", process.stdout)
        self._id = 0

    def _send(self, **message: object) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._in.flush()

    def request(self, method: str, **params: object) -> dict[str, Any]:
        """Send a request and return its result."""
        self._id += 1
        self._send(id=self._id, method=method, params=params)
        for line in self._out:
            reply = json.loads(line)
            if reply.get("id") == self._id:
                if "result" not in reply:
                    raise WentWrong(f"{method}: {reply}")
                return cast("dict[str, Any]", reply["result"])
        raise WentWrong(f"{method}: the server ended")

    def initialize(self) -> None:
        """Shake hands."""
        client = {"name": "benchmarks", "version": "1"}
        self.request("initialize", protocolVersion=REVISION, capabilities={}, clientInfo=client)
        self._send(method="notifications/initialized")

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool that has to succeed."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        if result.get("isError"):
            raise WentWrong(f"{tool}: {result}")
        return result

    def call_all(self, tool: str, calls: Sequence[Mapping[str, object]]) -> None:
        """Send calls all at once, and wait until each has succeeded."""
        waiting = set[int]()
        for arguments in calls:
            self._id += 1
            waiting.add(self._id)
            self._send(id=self._id, method="tools/call", params={"name": tool, "arguments": arguments})
        while waiting:
            line = self._out.readline()
            reply = cast("dict[str, Any]", json.loads(line) if line else {})
            if "result" not in reply or reply["result"].get("isError"):
                raise WentWrong(f"{tool}: {reply or 'the server ended'}")
            waiting.discard(reply["id"])

    def until_answered(self, tool: str, **arguments: object) -> None:
        """Call a tool until it succeeds: what is behind the server may take a moment to come up."""
        give_up_at = time.monotonic() + _UP_WITHIN_S
        while True:
            try:
                self.call(tool, **arguments)
            except WentWrong:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.1)
            else:
                return

    def begin(self) -> str:
        """Open a saga and return its id."""
        return cast("str", self.call("saga_begin")["_meta"]["saga"]["id"])


@contextmanager
def started(command: Sequence[str]) -> Generator[Connection]:
    """Start a server; close its stdin when the block ends, and wait until it has ended."""
    with _running(command, lambda process: cast("IO[bytes]", process.stdin).close()) as process:
        yield Connection(process)


@contextmanager
def listening(command: Sequence[str]) -> Generator[str]:
    """Start a server that says where it listens, its URL; tell it to end when the block does, and wait until it has."""
    with _running(command, lambda process: process.terminate()) as process:
        line = cast("IO[bytes]", process.stdout).readline()
        if not line:
            raise WentWrong("the server did not start")
        yield line.decode().split()[-1]


@contextmanager
def _running(
    command: Sequence[str], end: Callable[[subprocess.Popen[bytes]], None]
) -> Generator[subprocess.Popen[bytes]]:
    with (
        TemporaryFile() as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process,  # noqa: S603 - our own command
    ):
        try:
            yield process
        except Exception as error:
            log.seek(0)
            error.add_note(log.read()[-_SHOWN:].decode(errors="replace"))
            raise
        finally:
            end(process)
            try:
                process.wait(_ENDS_WITHIN_S)
            finally:
                process.kill()
