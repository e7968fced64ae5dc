"""An operator who settles what waits, with the commands, by looking at the world and saying what is there."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from tests.replicas.clerk import say
from tests.replicas.fleet import Fleet
from tests.replicas.readings import Reading, base
from tests.replicas.said import Verdict

from saga_mcp.domain.attention import Item
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import ItemKind, PartAction

NAMES: Mapping[str, str] = {
    "reserve": "release",
    "hold": "unhold",
    "charge": "refund",
    "wire": "unwire",
    "book": "unbook",
    "post": "unpost",
    "reserve_one": "free_one",
    "sign": "unsign",
    "lease": "vacate",
    "store": "fetch",
    "ship": "recall",
}
"""What takes an effect back, by hand or not."""
HARMLESS = frozenset({"Nothing waits for a person", "does not fit", "Settle "})
"""Somebody, or a late answer, was faster; or another item comes first."""


class Operator:
    def __init__(self, fleet: Fleet, dice: random.Random, note: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._dice = dice
        self._note = note
        self.verdicts: list[Verdict] = []

    async def listed(self) -> dict[str, str]:
        """What `attention` shows, each item with its kind."""
        code, output = await self._fleet.command("attention", "--json")
        assert code == 0, output
        return {each["item"]: each["kind"] for each in json.loads(output)["items"]}

    async def settle(self, saga: Saga, item: Item) -> str:
        """Do what an item asks for, as what stands in the world demands; what the command said where it refused."""
        step = saga.step(item.step) if item.step else None
        if not self._may_be(saga, item, step):
            return f"{item.name} cannot be {item.kind}: {item.tool} ({item.message})"
        if item.kind is ItemKind.APPROVAL:
            return await self._answer(item)
        verb, more = self._verb(saga, item, step)
        self._note(f"operator: {item.name} {item.kind} {item.tool} ({item.message}): {verb}")
        by_hand = verb == "resolve --undone"
        if by_hand and step is not None and item.kind is not ItemKind.UNDO_IN_DOUBT:
            self._undo_by_hand(saga, step, item)
        words = ["--note", "looked", "--by", "ada", "--yes"]
        command, *flag = verb.split()
        code, output = await self._fleet.command(command, item.name, *flag, *more, *words)
        if f"resolve {item.name} --keep" in output and code:  # what comes before it there is undone already
            code, output = await self._fleet.command("resolve", item.name, "--keep", *words)
        if code == 0 or "Recorded" in output:
            self.verdicts.append(Verdict(saga.id, item.step, item.kind.value, verb))
            return ""
        if any(each in output for each in HARMLESS):
            self._note(f"operator: {output.strip()}")
            return ""
        return f"{verb} of {item.name} ({item.kind}): {output.strip()[-600:]}"

    async def _answer(self, item: Item) -> str:
        verdict, output = await say(self._fleet, item.name, self._dice.choice(["approve", "reject"]))
        self._note(f"operator: {item.name} approval: {output.strip()[:120]}")
        if verdict is not None:
            self.verdicts.append(verdict)
        return ""

    def _may_be(self, saga: Saga, item: Item, step: Step | None) -> bool:
        """Whether what is asked can be so, as the world and the tools are."""
        if step is None:
            return item.kind is ItemKind.INVARIANT
        key, tool = saga.key_of(step.number), step.tool.partition(".")[2]
        modes = {line.mode for line in self._fleet.world.sent() if line.undo_key and base(line.key) == key}
        match item.kind:
            case ItemKind.IN_DOUBT | ItemKind.LATE_EFFECT:
                return True
            case ItemKind.UNDO_IN_DOUBT:
                return tool in {"charge", "wire", "sign", "ship"}
            case ItemKind.DEAD_LETTER:
                return bool(modes - {"ok"}) or tool in {"store", "ship"}  # attempts end with their upstream, too
            case ItemKind.APPROVAL:
                return tool == "sign"
            case ItemKind.MANUAL_UNDO:
                return "person" in modes or tool == "post"
            case ItemKind.GUARD_CONFLICT:
                return tool == "put"
            case ItemKind.RETRIABLE_EXHAUSTED:
                return tool == "notify"
            case _:
                return False

    def _verb(self, saga: Saga, item: Item, step: Step | None) -> tuple[str, Sequence[str]]:
        if step is None or item.kind is ItemKind.INVARIANT:
            return "exempt", ()
        world = Reading(self._fleet.world.lines)
        key = saga.key_of(step.number)
        landed = world.ever_landed(key)
        match item.kind:
            case ItemKind.IN_DOUBT if landed:
                return "resolve --landed", self._result(step, key)
            case ItemKind.IN_DOUBT:
                return ("exempt" if step.landed else "resolve --absent"), ()
            case ItemKind.RETRIABLE_EXHAUSTED:
                return ("resolve --landed" if landed else "retry"), ()
            case ItemKind.UNDO_IN_DOUBT if not world.undone(key, self._part_undone(step, key)):
                return "retry", ()
            case ItemKind.GUARD_CONFLICT:
                return "resolve --overwrite", ()
            case ItemKind.DEAD_LETTER if self._dice.random() < 0.6 or step.tool.endswith(".put"):
                return "retry", ()
            case _:
                return "resolve --undone", ()

    @staticmethod
    def _part_undone(step: Step, key: str) -> str:
        part = step.next_part
        return f"{key}/{part.spec.args['item']}" if part is not None and part.registered else key

    def _result(self, step: Step, key: str) -> Sequence[str]:
        if self._dice.random() < 0.5:
            return ()
        if step.tool == "ledger.charge":
            return ("--result", json.dumps({"id": f"ch-{key}", "cents": step.plan.args["cents"]}))
        if step.tool == "ledger.reserve":
            return ("--result", json.dumps({"id": 2**53 + 1, "item": step.plan.args["item"]}))
        return ()

    def _undo_by_hand(self, saga: Saga, step: Step, item: Item) -> None:
        key = saga.key_of(step.number)
        part = step.next_part
        whole = item.kind in {ItemKind.LATE_EFFECT, ItemKind.CANNOT_BUILD} or part is None
        here = (
            None if whole or part is None or part.spec.action is not PartAction.CALL else self._part_undone(step, key)
        )
        for line in Reading(self._fleet.world.lines).standing(key):
            if here in {None, line.key} and line.tool in NAMES:
                undone = replace(line, tool=NAMES[line.tool], undo_key="by hand", pid=0, mode="")
                with self._fleet.world.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(undone)) + "\n")
