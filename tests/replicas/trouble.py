"""What goes wrong while callers work: with servers, with what is between them and the database, and with that."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Coroutine

import anyio
from tests.replicas import depot
from tests.replicas.callers import Board
from tests.replicas.fleet import LEASE_S, Replica

Note = Callable[[str], None]
AT_MOST_S = 6.0
"""Between two pieces of trouble, where callers get little done."""


class Trouble:
    def __init__(self, board: Board, dice: random.Random, note: Note) -> None:
        self._board = board
        self._fleet = board.fleet
        self._dice = dice
        self._note = note
        self._still = anyio.Semaphore(1)
        """One server at a time stands still: callers wait long for each."""
        self._database = anyio.Lock()

    async def make(self) -> None:
        """Trouble of all kinds, some of it at the same time, in step with the work of the callers."""
        kinds: dict[Callable[[Replica], Coroutine[None, None, None]], int] = {
            self._kill: 4,
            self._stand_still: 3,
            self._drain: 2,
            self._cut: 3,
            self._half_close: 2,
            self._delay: 3,
            self._swallow: 2,
            self._refuse: 1,
            self._restart_database: 1,
            self._kill_upstream: 3,
            self._upstreams_down: 1,
        }
        most = self._dice.choice([8, 16])
        async with anyio.create_task_group() as tasks:
            while not self._board.over:
                await self._board.goes_on(self._dice.randint(1, most), at_most_s=AT_MOST_S)
                kind = self._dice.choices([*kinds], [*kinds.values()])[0]
                tasks.start_soon(kind, self._dice.choice(self._fleet.replicas))

    def _tell(self, replica: Replica, what: str) -> None:
        self._note(f"{replica.name} (pid {replica.pid}) {what}")

    async def _kill(self, replica: Replica) -> None:
        self._tell(replica, "is killed")
        replica.send(signal.SIGKILL)

    async def _drain(self, replica: Replica) -> None:
        if not replica.stands_still:
            self._tell(replica, "is told to end")
            replica.send(signal.SIGTERM)

    async def _stand_still(self, replica: Replica) -> None:
        async with self._still:
            for_s = self._dice.choice([0.5, LEASE_S + 2.0])
            if replica.send(signal.SIGSTOP):
                self._tell(replica, f"stands still for {for_s} s")
                await anyio.sleep(for_s)
                replica.send(signal.SIGCONT)
                self._tell(replica, "goes on")

    async def _cut(self, replica: Replica) -> None:
        self._tell(replica, "is cut off from the database")
        replica.proxy.cut()

    async def _half_close(self, replica: Replica) -> None:
        self._tell(replica, "is half cut off")
        replica.proxy.half_close()

    async def _delay(self, replica: Replica) -> None:
        self._tell(replica, "has a slow database")
        replica.proxy.delay_s = self._dice.uniform(0.01, 0.1)
        await anyio.sleep(self._dice.uniform(0.5, 3))
        replica.proxy.delay_s = 0.0

    async def _swallow(self, replica: Replica) -> None:
        answers = self._dice.random() < 0.5
        self._tell(replica, f"gets nothing through, {'answers only' if answers else 'either way'}")
        if answers:
            replica.proxy.swallows_answers = True
        else:
            replica.proxy.swallows = True
        await anyio.sleep(self._dice.choice([0.3, 0.3, 2.0, 7.0]))
        replica.proxy.swallows = replica.proxy.swallows_answers = False
        replica.proxy.cut()  # a stream of which a piece is missing is none

    async def _refuse(self, replica: Replica) -> None:
        self._tell(replica, "finds no database")
        replica.proxy.refuses = True
        replica.proxy.cut()
        await anyio.sleep(self._dice.uniform(0.5, 5))
        replica.proxy.refuses = False

    async def _restart_database(self, _: Replica) -> None:
        how = self._dice.choice([signal.SIGINT, signal.SIGQUIT])
        down_s = self._dice.choice([0.0, 0.0, 2.0])
        self._note(f"the database is ended by {how.name} and starts again after {down_s} s")
        async with self._database:
            await anyio.to_thread.run_sync(self._fleet.postgres.stop, how)
            await anyio.sleep(down_s)
            self._fleet.postgres.start()  # not in a thread: it ends with the thread that started it

    async def _kill_upstream(self, replica: Replica) -> None:
        if replica.pid and await anyio.to_thread.run_sync(depot.kill, replica.pid):
            self._tell(replica, "has lost its upstream")

    async def _upstreams_down(self, _: Replica) -> None:
        down_s = self._dice.choice([1.0, 3.0])
        self._note(f"the upstreams of all are down for {down_s} s")
        depot.go_down(self._fleet.world)
        for replica in self._fleet.replicas:
            await self._kill_upstream(replica)
        await anyio.sleep(down_s)
        depot.come_up(self._fleet.world)
