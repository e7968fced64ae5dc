"""One schedule over three replicas: callers, a person, trouble, and then the end of everything, drawn from one seed.

What is drawn is the same for a seed; how it falls together is up to real processes, so a seed that went wrong once may
go well again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from tests.http.people import TOKENS
from tests.http.serving import agent
from tests.postgres.server import PostgresServer, fresh
from tests.replicas import depot
from tests.replicas.callers import NAMES, TEAMS, TOOLS, Actor, Board, plan
from tests.replicas.clerk import Clerk
from tests.replicas.fleet import Fleet, Terms
from tests.replicas.judge import judge
from tests.replicas.operator import Operator
from tests.replicas.said import Evidence
from tests.replicas.trouble import Trouble

from saga_mcp.domain.attention import Item, items
from saga_mcp.domain.duties import busy
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, StepState
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.postgres.database import PostgresDatabase

REALM = "ledger"
LASTS_S = 90.0
"""How long callers work at most, where three servers get little done: the machine is busy otherwise."""
KEYED = (
    *("ledger.reserve", "ledger.hold", "ledger.charge", "ledger.wire", "ledger.book", "ledger.post"),
    *("ledger.send_mail", "ledger.notify", "ledger.reserve_many", "shelf.put"),
    *("office.sign", "office.lease"),
)
"""Calls of these take a `step_key`."""
RESTS_WITHIN_S = 60.0
ROUNDS = 25
EXPIRES_S = 8.0
"""How long a person has to answer, where that is not long."""


@dataclass
class Run:
    """What came of a seed."""

    seed: int
    problems: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    evidence: Evidence | None = None

    @property
    def told(self) -> str:
        again = f"SAGA_MCP_ANSWERS=100 SEED={self.seed} scripts/test tests/replicas -k one_seed_alone -m ''"
        return "\n".join([*self.notes, *self.problems, f"To run this schedule alone: {again}"])


class Schedule:
    def __init__(  # noqa: PLR0913 - all but three with a default
        self,
        seed: int,
        folder: Path,
        postgres: PostgresServer,
        *,
        first: str = "",
        calm: bool = False,
        answers: int = 100,
        acts: int = 1,
        tools: Mapping[str, int] = TOOLS,
    ) -> None:
        self.run = Run(seed)
        self._dice = random.Random(seed)  # noqa: S311 - a test
        self._folder = folder
        self._postgres = postgres
        self._first = first
        self._answers = answers
        """After so many callers have done their work."""
        self._acts = acts
        """How often callers work, and all comes to an end, with the same servers: starting them takes longest."""
        self._tools = tools
        self._calm = calm
        """Calls and undos go wrong, and nothing else does."""

    async def play(self) -> Run:
        dice = self._dice
        on_error, on_undo_failure = dice.choice(["abort", "abort", "hold"]), dice.choice(["halt", "halt", "continue"])
        saga = f'on_error = "{on_error}"\non_undo_failure = "{on_undo_failure}"\nreply_within_s = 3.0'
        tools = "\n".join(f"[tools.'{tool}']\non_repeat = 'run'" for tool in KEYED)
        expires_s, scope = dice.choice([EXPIRES_S, 86400.0]), dice.choice(["shared", "shared", "host"])
        saga += f"\napproval_expires_s = {expires_s}"
        terms = Terms(one_machine=dice.random() < 0.6, saga=saga, tools=tools, scope=scope, first=self._first)
        self._note(f"seed {self.run.seed}: {terms.one_machine=} {scope=} {on_error=} {on_undo_failure=} {expires_s=}")
        with fresh(self._postgres) as name:
            fleet = Fleet(self._folder, self._postgres, name, terms)
            async with SqlSagaLog.over(PostgresDatabase(fleet.place)) as log:
                async with fleet.running():
                    board, operator = Board(fleet, self._tools), Operator(fleet, dice, self._note)
                    for _ in range(self._acts):
                        await self._work(board, operator)
                        await self._end(fleet, log, operator)
                await self._judge(fleet, board, log, operator)
        return self.run

    def _note(self, line: str) -> None:
        self.run.notes.append(f"{anyio.current_time():.2f} {line}")

    async def _work(self, board: Board, operator: Operator) -> None:
        board.due, board.ends_at = board.answers + self._answers, anyio.current_time() + LASTS_S
        board.fleet.world.plan(**plan(self._dice, failing=20 if self._calm else 5))
        board.fleet.world.stay()
        before = len(board.said)
        async with anyio.create_task_group() as tasks:
            for caller in NAMES * 4:
                actor = Actor(board, caller, random.Random(self._dice.random()))  # noqa: S311 - a test
                tasks.start_soon(actor.act)
            clerk = Clerk(board, random.Random(self._dice.random()), self._note, operator.verdicts)  # noqa: S311 - a test
            tasks.start_soon(clerk.answer)
            if not self._calm:
                trouble = Trouble(board, random.Random(self._dice.random()), self._note)  # noqa: S311 - a test
                tasks.start_soon(trouble.make)
        self.run.notes += [said.told() for said in board.said[before:]]

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _end(self, fleet: Fleet, log: SqlSagaLog, operator: Operator) -> None:
        """Heal everything, and bring each saga to an end, with an operator's help."""
        for replica in fleet.replicas:
            replica.heal()
        depot.come_up(fleet.world)
        fleet.world.plan()
        fleet.world.go()
        await fleet.all_up()
        self._note("all is well again")
        for _ in range(ROUNDS):
            sagas = await self._at_rest(fleet, log)
            waiting = [(saga, item) for saga in sagas for item in items(saga)]
            if waiting:
                await self._settle(operator, waiting)
            elif open_ := [saga for saga in sagas if not saga.final]:
                await self._ask_for_an_end(fleet, open_)
            else:
                return
        self.run.problems.append("not everything came to an end")

    async def _at_rest(self, fleet: Fleet, log: SqlSagaLog) -> Sequence[Saga]:
        """All sagas, once nothing of them runs or is due, and nothing moves in the world."""
        before = -1
        sagas: Sequence[Saga] = ()
        with anyio.move_on_after(RESTS_WITHIN_S) as wait:
            while True:
                sagas = [await log.load(row.id) for row in await log.sagas(REALM, limit=10_000)]
                lines = fleet.length
                if lines == before and not any(map(busy, sagas)):
                    return sagas
                before = lines
                await anyio.sleep(0.3)
        assert wait.cancelled_caught
        self.run.problems += [f"{saga.id} never came to rest: {saga.phase}" for saga in sagas if busy(saga)]
        return sagas

    async def _settle(self, operator: Operator, waiting: Sequence[tuple[Saga, Item]]) -> None:
        # A question may expire in between.
        listed = {name: kind for name, kind in (await operator.listed()).items() if kind != ItemKind.APPROVAL}
        known = {item.name: item.kind.value for _, item in waiting if item.kind is not ItemKind.APPROVAL}
        if listed != known:
            self.run.problems.append(f"`attention` lists {listed} in place of {known}")
        of_saga: dict[str, list[tuple[Saga, Item]]] = {}
        for saga, item in waiting:
            of_saga.setdefault(saga.id, []).append((saga, item))
        for items_of_one in of_saga.values():
            refused = await operator.settle(*self._dice.choice(items_of_one))
            if refused:
                self.run.problems.append(refused)

    async def _ask_for_an_end(self, fleet: Fleet, sagas: Sequence[Saga]) -> None:
        server = fleet.next_up()
        assert server is not None
        async with agent(server.url, TOKENS["op"]) as op:
            for saga in sagas:
                failed = [step.number for step in saga.steps if step.state is StepState.FAILED]
                commit = partial(op.call, "saga_commit", saga_id=saga.id, accept_failed=failed)
                abort = partial(op.call, "saga_abort", saga_id=saga.id)
                ways = [commit, abort] if self._dice.random() < 0.5 else [abort, commit]
                for way in ways:
                    answer = await way()
                    self._note(f"operator ends {saga.id}: {answer.text}")
                    if not answer.is_error:
                        break

    async def _judge(self, fleet: Fleet, board: Board, log: SqlSagaLog, operator: Operator) -> None:
        sagas = {row.id: await log.load(row.id) for row in await log.sagas(REALM, limit=10_000)}
        evidence = Evidence(
            lines=fleet.world.lines,
            sagas=sagas,
            said=board.said,
            verdicts=operator.verdicts,
            survivors=frozenset(fleet.survivors),
            callers={name: frozenset({name, *(f"team:{team}" for team in TEAMS.get(name, ()))}) for name in NAMES},
        )
        self.run.evidence = evidence
        self.run.problems += judge(evidence)
        self.run.problems += fleet.bugs()
        if self.run.problems:
            self.run.notes += [str(line) for line in fleet.world.lines]
