"""A person who is asked what may be sent, and answers with the commands: at random, late, twice, or not at all."""

from __future__ import annotations

import json
import random
import re

import anyio
from tests.replicas.callers import Board
from tests.replicas.fleet import Fleet
from tests.replicas.said import Verdict
from tests.replicas.trouble import Note

REFUSED = re.compile(r"Nothing (was changed|waits)|does not fit")
"""The question is over: somebody else was faster, or it expired."""


async def say(fleet: Fleet, item: str, verb: str) -> tuple[Verdict | None, str]:
    """Answer a question with the command; None: it was refused, and the output tells why."""
    saga_id, _, step = item.rpartition(".")
    at = fleet.length
    code, output = await fleet.command(verb, item, "--note", "asked", "--by", "ada", "--yes")
    sure = code == 0 or "Recorded" in output
    if not sure and REFUSED.search(output):
        return None, output
    return Verdict(saga_id, int(step), "approval", verb, at, sure), output


class Clerk:
    """Answers questions while callers work."""

    def __init__(self, board: Board, dice: random.Random, note: Note, verdicts: list[Verdict]) -> None:
        self._board = board
        self._dice = dice
        self._note = note
        self._verdicts = verdicts

    async def answer(self) -> None:
        while not self._board.over:
            code, output = await self._board.fleet.command("attention", "--json")
            asked = json.loads(output)["items"] if code == 0 else ()
            for item in asked:
                if item["kind"] == "approval" and not self._board.over:
                    await self._say(item["item"])
            await self._board.goes_on(self._dice.randint(1, 6), at_most_s=2.0)

    async def _say(self, item: str) -> None:
        """Answer a question; what was asked may be over by then."""
        dice = self._dice
        verbs = dice.choice([["approve"], ["approve"], ["reject"], ["approve", "approve"], ["approve", "reject"], []])
        if verbs and dice.random() < 0.3:
            await anyio.sleep(dice.uniform(0.5, 4))
        for verb in verbs:
            verdict, output = await say(self._board.fleet, item, verb)
            self._note(f"clerk: {verb} {item}: {output.strip()[:120]}")
            if verdict is not None:
                self._verdicts.append(verdict)
