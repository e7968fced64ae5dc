"""Callers with tokens of their own, who do at random what agents do, each call at the next server."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from mcp import MCPError
from tests.http.people import TOKENS
from tests.http.serving import Agent, agent
from tests.replicas.fleet import Fleet
from tests.replicas.said import Asked, Said

NAMES = ("alice", "bob", "eve")
TEAMS = {"alice": ("desk", "shift"), "bob": ("desk", "shift")}
TOOLS: Mapping[str, int] = {
    "reserve": 8,
    "hold": 4,
    "charge": 7,
    "wire": 4,
    "book": 4,
    "put": 6,
    "reserve_many": 3,
    "post": 1,
    "send_mail": 2,
    "notify": 1,
    "balance": 2,
    "sign": 9,
    "lease": 9,
    "depot_store": 5,
    "depot_ship": 5,
}
MODES: Mapping[str, int] = {
    "ok": 120,
    "0.2": 30,
    "1.4": 5,
    "err_before": 5,
    "fail_before": 5,
    "err_after": 5,
    "hang_before": 2,
    "hang_after": 2,
    "die_before": 1,
    "die_after": 2,
}
ROOMS = 3
OF_THE_PLAN = frozenset({"book", "notify"})
"""Their calls are sent again, so what each sending does is planned: see `plan`."""
PATIENCE_S = 12.0


@dataclass
class Board:
    """What all callers have done, and the sagas they know."""

    fleet: Fleet
    tools: Mapping[str, int] = field(default_factory=lambda: TOOLS)
    """What callers call, and how often."""
    due: int = 0
    """Answers that callers are to get before they stop; those that were lost do not count."""
    ends_at: float = 0.0
    """When they stop otherwise."""
    said: list[Said] = field(default_factory=list[Said])
    sagas: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By caller or team."""
    ended: set[str] = field(default_factory=set[str])
    keyed: list[Asked] = field(default_factory=list[Asked])
    lost: list[Asked] = field(default_factory=list[Asked])
    waiting: list[Asked] = field(default_factory=list[Asked])
    """What a person was to allow first."""
    slots: dict[str, int] = field(default_factory=dict[str, int])
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def answers(self) -> int:
        return sum(not said.trouble and said.code != "log_unavailable" for said in self.said)

    @property
    def over(self) -> bool:
        return self.answers >= self.due or anyio.current_time() > self.ends_at

    async def goes_on(self, answers: int, *, at_most_s: float) -> None:
        """Wait for that many answers more."""
        due = self.answers + answers
        with anyio.move_on_after(at_most_s):
            while self.answers < due:  # noqa: ASYNC110 - many callers
                await anyio.sleep(0.02)

    def known_to(self, caller: str) -> list[str]:
        return [saga_id for owner in (caller, *TEAMS.get(caller, ())) for saga_id in self.sagas.get(owner, [])]

    async def ask(self, asked: Asked, patience_s: float = PATIENCE_S) -> Said | None:
        """Make a call; None: nobody was there to take it."""
        server = self.fleet.next_up()
        if server is None:
            await anyio.sleep(0.1)
            return None
        began, pid = self.fleet.length, server.pid
        said: Said | None = None
        trouble = "given up"
        with anyio.move_on_after(patience_s):
            try:
                async with agent(server.url, TOKENS[asked.caller]) as client:
                    said = await self._asked(client, asked, pid, began)
            except* (httpx2.HTTPError, MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as lost:
                trouble = repr(lost.exceptions[0])
        if said is None:
            said = Said(asked=asked, pid=pid, began=began, ended=self.fleet.length, trouble=trouble)
        self.said.append(said)
        return said

    async def _asked(self, client: Agent, asked: Asked, pid: int, began: int) -> Said:
        answer = await client.call(asked.tool, **asked.arguments)
        return Said.of(asked, pid, began, self.fleet.length, answer)


class Actor:
    """One agent of a caller."""

    def __init__(self, board: Board, caller: str, dice: random.Random) -> None:
        self._board = board
        self._caller = caller
        self._dice = dice

    async def act(self) -> None:
        while not self._board.over:
            await self._turn()
            await anyio.sleep(self._dice.choice([0.0, 0.1, 0.5]) * self._dice.random())

    async def _turn(self) -> None:
        dice, board = self._dice, self._board
        mine = [saga_id for saga_id in board.known_to(self._caller) if saga_id not in board.ended]
        what = dice.random()
        if not mine or what < 0.1:
            await self._begin()
            return
        saga_id = dice.choice(mine[-4:])
        if what < 0.17:
            await self._control("saga_commit", saga_id, **self._accepting(saga_id))
        elif what < 0.25:
            await self._control("saga_abort", saga_id)
        elif what < 0.31:
            await self._control("saga_savepoint", saga_id, name="mark")
        elif what < 0.37:
            await self._control("saga_abort", saga_id, to_savepoint="mark")
        elif what < 0.42:
            await self._control("saga_status", saga_id)
        elif what < 0.45:
            await self._control("saga_status")
        elif what < 0.49:
            await self._trespass()
        elif what < 0.56 and (again := self._repeatable()):
            await self._call(dice.choice(again))
        elif what < 0.72:
            async with anyio.create_task_group() as together:
                for _ in range(dice.randint(2, 4)):
                    together.start_soon(self._call, self._new_call(saga_id))
        else:
            await self._call(self._new_call("" if what > 0.96 else saga_id))

    def _accepting(self, saga_id: str) -> dict[str, Any]:
        failed = {said.step for said in self._board.said if said.saga_id == saga_id and said.code == "step_failed"}
        return {"accept_failed": sorted(failed)} if failed and self._dice.random() < 0.8 else {}

    def _repeatable(self) -> list[Asked]:
        board = self._board
        again = (*board.keyed[-6:], *board.lost[-3:], *board.waiting[-3:])
        return [asked for asked in again if asked.caller == self._caller]

    async def _begin(self) -> None:
        teams = TEAMS.get(self._caller, ())
        team = self._dice.choice(teams) if teams and self._dice.random() < 0.5 else ""
        said = await self._ask(Asked(caller=self._caller, tool="saga_begin", arguments={"team": team} if team else {}))
        if said is not None and not said.trouble and not said.is_error:
            self._board.sagas.setdefault(team or self._caller, []).append(said.saga_id)

    async def _control(self, tool: str, saga_id: str = "", **arguments: Any) -> None:  # noqa: ANN401 - JSON
        named = {"saga_id": saga_id} if saga_id else {}
        said = await self._ask(Asked(caller=self._caller, tool=tool, arguments={**named, **arguments}))
        if said is not None and said.facts.get("phase") in {"committed", "compensated", "compensating"}:
            self._board.ended.add(said.saga_id)

    async def _trespass(self) -> None:
        """Reach for what is somebody else's."""
        mine = set(self._board.known_to(self._caller))
        others = [saga_id for ids in self._board.sagas.values() for saga_id in ids if saga_id not in mine]
        if others:
            tool = self._dice.choice(["saga_status", "saga_abort", "saga_commit", "reserve"])
            arguments = {"item": f"theft{next(self._board.numbers)}"} if tool == "reserve" else {}
            await self._control(tool, self._dice.choice(others), **arguments)

    def _new_call(self, saga_id: str) -> Asked:
        dice, number = self._dice, next(self._board.numbers)
        tools = self._board.tools
        tool = dice.choices([*tools], [*tools.values()])[0]
        mode = "ok" if tool in OF_THE_PLAN else dice.choices([*MODES], [*MODES.values()])[0]
        tag = f"t{number}"
        arguments: dict[str, Any] = {"mode": mode} if mode != "ok" else {}
        if tool in {"charge", "wire"}:
            cents = number + (1000 if tool == "charge" and dice.random() < 0.04 else 0) if number < 1000 else number
            arguments |= {"cents": cents}
            tag = str(cents)
        elif tool in {"post", "send_mail", "notify"}:
            arguments |= {"to": tag}
        elif tool == "reserve_many":
            arguments |= {"items": [f"{tag}-{each}" for each in range(dice.randint(1, 3))]}
        elif tool == "put":
            # A slot is one saga's: what others put there in between would be for a person to settle.
            arguments |= {"slot": f"{saga_id or tag}/{dice.randrange(2)}", "text": tag}
        elif tool == "sign":
            terms = {"days": [number, 2**63 - number], "of": {"who": f"{tag} & Söhne"}}
            arguments |= {"item": tag, "number": 2**53 + number, "terms": terms}
        elif tool == "lease":
            arguments |= {"item": tag, "room": f"room{dice.randrange(ROOMS)}"}
        elif tool != "balance":
            arguments |= {"item": tag}
        if saga_id:
            arguments["saga_id"] = saga_id
            if tool != "balance" and dice.random() < 0.3:
                arguments["step_key"] = f"k{number}"
        asked = Asked(caller=self._caller, tool=tool, arguments=arguments, tag="" if tool == "balance" else tag)
        if "step_key" in arguments:
            self._board.keyed.append(asked)
        return asked

    async def _call(self, asked: Asked) -> None:
        said = await self._ask(asked)
        if said is None:
            return
        if said.trouble and not said.asked.arguments.get("step_key") and asked.saga_id:
            self._board.lost.append(asked)
        if said.code == "approval_needed" and asked.saga_id:
            self._board.waiting.append(asked)
        if said.saga_id and said.saga_id not in self._board.known_to(self._caller):
            self._board.sagas.setdefault(self._caller, []).append(said.saga_id)
        if said.facts.get("phase") in {"compensated", "compensating"}:
            self._board.ended.add(said.saga_id)

    async def _ask(self, asked: Asked) -> Said | None:
        patience_s = self._dice.uniform(0.05, 3) if self._dice.random() < 0.12 else PATIENCE_S
        return await self._board.ask(asked, patience_s)


def plan(dice: random.Random, *, failing: int) -> dict[str, Sequence[str]]:
    """What the n-th undo of each tool does, and the n-th sending of what is sent again.

    Args:
        dice: of the schedule.
        failing: how often undos fail, of about a hundred; and that often once more without saying how.
    """
    undo = {
        "ok": 70,
        "0.2": 10,
        "1.4": 3,
        "err_before": failing,
        "fail_before": failing,
        "err_after": 5,
        "die_after": 2,
    }
    of_person = {**undo, "person": 2, "give_up": 2}
    forward = {"ok": 60, "0.2": 10, "err_before": 8, "fail_before": 8, "err_after": 8, "die_after": 2}
    weights = {
        **dict.fromkeys(("release", "unhold", "refund", "unwire", "unbook", "free_one"), of_person),
        **dict.fromkeys(("unsign", "vacate"), of_person),
        **dict.fromkeys(("close_order", "put_back", "fetch", "recall"), undo),
        **dict.fromkeys(OF_THE_PLAN, forward),
        "find_charge": {"ok": 80, "fail_before": 20},
    }
    return {tool: [*dice.choices([*each], [*each.values()], k=150), "ok"] for tool, each in weights.items()}
