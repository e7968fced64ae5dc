"""Three servers of one realm over HTTP, each with a proxy of its own before the one PostgreSQL server.

A server that ends, however it ends, is followed by another one in its place. Callers go round: each call to the next
server that is there.
"""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2
from tests.e2e.product import REPOSITORY, Product
from tests.http.people import share
from tests.http.serving import web
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import PostgresServer
from tests.replicas import depot
from tests.replicas.forked import Forked, Shell
from tests.world.reading import World

REPLICAS = 3
BOUND_S = 60.0
LEASE_S = 4.0
TIMEOUT_S = 0.8
"""Of a call; its hard deadline is ten times as long."""
HERE = Path(__file__).parent
_ONE_MACHINE = """
from saga_mcp.config import database
database._short_hash = lambda text: "same"
"""
"""Each server reaches the database by an address of its own; on one machine they know each other all the same."""
_HASTY = f"""
from saga_mcp.log.sql.postgres import owners, session
assert owners.LEASE_S and owners.ALL_LOST_FOR_S and session.PROBE_EVERY_S
owners.LEASE_S, owners.ALL_LOST_FOR_S, session.PROBE_EVERY_S = {LEASE_S}, 6.0, 1.0
"""
_BUGS = re.compile(
    r"\b(driving_failed|recovery_failed|recovery_scan_failed|watch_failed|idle_watch_failed|question_watch_failed|"
    r"stranded_look_failed|undo_end_not_recorded|attempts_stranded|step_failed_inside|internal_error|"
    r"log_session_failed|IllegalTransition|SagaQuarantined)\b"
)
"""What a server says of itself where it met something that no rule foresees."""


_ENDS = {0, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM}
"""How a server may end: well, killed, told to before it could listen, and told to for the second time."""


@dataclass(frozen=True)
class Terms:
    """What a fleet is started with."""

    one_machine: bool
    saga: str
    """Further keys of `[saga]`."""
    tools: str = ""
    scope: str = "shared"
    """Of the upstream: where each place of a server is a machine of its own, what was done there is undone there."""
    first: str = ""
    """Python that runs in each server before anything of ours is imported."""


@dataclass(frozen=True)
class Server:
    """One process that serves."""

    url: str
    process: Forked

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass
class Replica:
    """A place for a server, and the server that has it now."""

    name: str
    product: Product
    proxy: Proxy
    server: Server | None = None
    stands_still: bool = False

    @property
    def pid(self) -> int:
        return 0 if self.server is None else self.server.pid

    def send(self, what: signal.Signals) -> bool:
        """Send it a signal, if there is a server."""
        if self.server is None:
            return False
        self.server.process.send(what)
        self.stands_still = (self.stands_still or what is signal.SIGSTOP) and what is not signal.SIGCONT
        return True

    def heal(self) -> None:
        proxy = self.proxy
        proxy.refuses, proxy.swallows, proxy.swallows_answers, proxy.delay_s = False, False, False, 0.0
        self.send(signal.SIGCONT)


class Fleet:
    """The servers, and what they share."""

    def __init__(self, folder: Path, postgres: PostgresServer, database: str, terms: Terms) -> None:
        self.folder = folder
        self.world = World(folder / "world.jsonl")
        self.postgres = postgres
        self.place = postgres.place(database, folder)
        self.terms = terms
        self.replicas: list[Replica] = []
        self.ended: dict[int, int] = {}
        """Exit codes of servers that are gone, by pid."""
        self.desk = self._product("desk", self.place.url)
        """The config as an operator has it, who reaches the database without a proxy."""
        self._shell: Shell | None = None
        self._over = False
        self._turns: Iterator[int] = itertools.cycle(range(REPLICAS))

    def _product(self, name: str, url: str) -> Product:
        (self.folder / name).mkdir()
        product = Product(self.folder / name, url=url)
        product.world = self.world
        python = "\n".join(f"[python.{name}]\npath = '{HERE / name}.py:registry'" for name in ("shelf", "office"))
        upstream = depot.config(self.folder, self.world, scope=self.terms.scope, timeout_s=TIMEOUT_S)
        share(product, self.terms.saga, f"{python}\n{upstream}\n{self.terms.tools}")
        return product

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the servers until the block ends; each of them then ends by itself, as it is told to."""
        async with AsyncExitStack() as proxies, anyio.create_task_group() as tasks:
            proxies.callback(self._close_shell)
            for number in range(REPLICAS):
                proxy, place = await proxies.enter_async_context(proxied(self.place, self.postgres.port))
                name = f"replica{number}"
                self.replicas.append(Replica(name, self._product(name, place.url), proxy))
                tasks.start_soon(self._keep, self.replicas[-1])
            await self.all_up()
            yield
            self._over = True
            for replica in self.replicas:
                replica.send(signal.SIGTERM)

    def _close_shell(self) -> None:
        if self._shell is not None:
            self._shell.end()

    async def _keep(self, replica: Replica) -> None:
        """Have a server in this place, and the next one when it ends."""
        for number in itertools.count():
            process = self._start(replica, number)
            try:
                url = (await process.said("http://")).split()[-1]
                replica.server, replica.stands_still = Server(url, process), False
                code = await process.wait()
                replica.server = None
            finally:
                process.end()
            self.ended[process.pid] = code
            if self._over:
                return

    def _start(self, replica: Replica, number: int) -> Forked:
        data = "data" if self.terms.one_machine else replica.name
        machine = {} if self.terms.one_machine else {"SAGA_MCP_HOST": replica.name}
        env = {"XDG_DATA_HOME": str(self.folder / data), "LEDGER_SETTLE_S": "0.2", **machine, **self._env}
        return Forked(
            *("serve", "--config", str(replica.product.config), "--http", "127.0.0.1:0"),
            env=env,
            out=replica.product.folder / f"server{number}.out",
            errors=replica.product.folder / f"server{number}.log",
            first=f"{_ONE_MACHINE if self.terms.one_machine else ''}{_HASTY}{self.terms.first}",
        )

    @property
    def _env(self) -> dict[str, str]:
        return {**self.world.env, "PYTHONPATH": str(REPOSITORY), "LEDGER_TIMEOUT_S": str(TIMEOUT_S)}

    async def all_up(self) -> None:
        """Wait until each place has a server that takes calls."""
        with anyio.fail_after(BOUND_S):
            for replica in self.replicas:
                while not await self._ready(replica):  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.05)

    @staticmethod
    async def _ready(replica: Replica) -> bool:
        if replica.server is None:
            return False
        async with web() as http:
            try:
                return (await http.get(replica.server.url.replace("/mcp", "/readyz"))).is_success
            except httpx2.TransportError:
                return False

    async def command(self, *arguments: str) -> tuple[int, str]:
        """Run a command as the operator does, on the machine of the servers or on another one."""
        if self._shell is None:
            self._shell = Shell(self.desk.folder, {"XDG_DATA_HOME": str(self.folder / "desk"), **self._env})
        return await self._shell.run(*arguments, "--config", str(self.desk.config))

    def next_up(self) -> Server | None:
        """The server that gets the next call; None: there is none now."""
        for _ in range(REPLICAS):
            server = self.replicas[next(self._turns)].server
            if server is not None and server.process.code is None:
                return server
        return None

    @property
    def length(self) -> int:
        """Lines of the world by now."""
        return self.world.file.read_bytes().count(b"\n") if self.world.file.exists() else 0

    @property
    def survivors(self) -> set[int]:
        """Servers that were never killed: what they knew they could record."""
        return {pid for pid, code in self.ended.items() if not code}

    def bugs(self) -> list[str]:
        """Lines of the servers' logs in which something unforeseen is said, and how they ended where that was amiss."""
        found = [f"a server ended with {code}" for code in self.ended.values() if code not in _ENDS]
        for log in sorted(self.folder.glob("*/server*.log")):
            text = log.read_text(encoding="utf-8", errors="replace").splitlines()
            found += [f"{log.parent.name}/{log.name}: {line}" for line in text if _BUGS.search(line)]
        return found
