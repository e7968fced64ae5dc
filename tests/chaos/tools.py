"""Tools of every kind at the engine's port, whose calls go as the dice say, over the outside world of a schedule."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
from tests.chaos.outside import Fate, Outside

from saga_mcp.domain.errors import LogError
from saga_mcp.domain.frozen import PartLimits, PartSpec
from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Kind, PartAction
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.catalogue import StaticCatalogue
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_mcp.tools.port import (
    Absent,
    Arguments,
    AsksPerson,
    CallContext,
    GivesUp,
    Judged,
    Landed,
    Lost,
    Missed,
    NoVerdict,
    Outcome,
    ProbeVerdict,
    StepFacts,
    ToolAnswer,
    UndoContext,
    UndoMissed,
    Undone,
    UndoOutcome,
)
from saga_mcp.tools.tool_listing import ToolListing
from saga_tools import Retry

TIMEOUT_S = 2.0
DEADLINE_S = 6.0
UNDO_DEADLINE_S = 10 * TIMEOUT_S
SETTLE_S = 0.5
QUICK = Retry(attempts=3, first_delay_s=0.1, max_delay_s=0.5)
BAD = 13
"""A result that a rule forbids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """What is special about one tool."""

    kind: Kind = Kind.COMPENSABLE
    undo: PartAction | None = PartAction.CALL
    once: bool = False
    """Its undo must not be sent again, or blindly."""
    idempotent: bool = False
    attempts: int = 1
    probe: bool = False
    needs_result: bool = False
    thread: bool = False
    """Neither it nor its undo can be stopped."""
    asks: bool = False
    """Its undo says that only a person can do it."""
    parts: int = 0
    """Effects of their own, each with an undo that the call registers."""


TRAITS: Mapping[str, Trait] = {
    "reserve": Trait(),
    "hold": Trait(thread=True),
    "charge": Trait(once=True, probe=True),
    "wire": Trait(once=True),
    "pay": Trait(once=True, thread=True, probe=True),
    "book": Trait(idempotent=True, attempts=3),
    "order": Trait(attempts=3),
    "measure": Trait(needs_result=True),
    "lookup": Trait(needs_result=True, probe=True, once=True),
    "post": Trait(asks=True),
    "letter": Trait(undo=PartAction.MANUAL),
    "gift": Trait(undo=PartAction.LEAVE),
    "many": Trait(parts=2),
    "mail": Trait(kind=Kind.PIVOT, undo=None),
    "announce": Trait(kind=Kind.PIVOT, undo=None, probe=True),
    "notify": Trait(kind=Kind.RETRIABLE, undo=None, idempotent=True, attempts=3),
    "poll": Trait(kind=Kind.RETRIABLE, undo=None, probe=True, attempts=2),
    "balance": Trait(kind=Kind.READ_ONLY, undo=None),
}

FORWARD = {
    "ok": 50,
    "refused": 6,
    "broken before": 6,
    "broken after": 6,
    "slow": 4,
    "slow and refused": 2,
    "slow and broken": 2,
    "stuck": 3,
    "lost": 2,
}
UNDO = {
    "ok": 60,
    "refused": 8,
    "unreachable": 3,
    "broken before": 6,
    "broken after": 6,
    "slow": 4,
    "stuck": 2,
    "gives up": 2,
}
OF_THREADS = {"stuck": 30}
"""What cannot be stopped is there to get stuck."""


@dataclass
class Chance:
    """What a process's tools share."""

    dice: random.Random
    outside: Outside
    fate: Fate
    calm: bool = False
    """All goes well from now on."""
    trouble: float = 1.0
    """How much of the trouble above there is."""
    dies_at: int = 0
    """The call, or undo, during which the process dies; 0: at none."""
    calls: int = 0

    async def begin(self) -> None:
        """A call begins; for one of them the process has little time left."""
        await self.fate.alive()
        self.calls += 1
        if self.calls == self.dies_at:
            life_s = self.dice.uniform(0, 0.5)
            asyncio.get_running_loop().call_later(life_s, self._die)

    def _die(self) -> None:
        if self.dies_at and not self.fate.dead:
            self.outside.note(f"{self.fate.name} dies during call {self.dies_at}")
            self.fate.die()

    def draw(self, weights: Mapping[str, int]) -> str:
        if self.calm or self.dice.random() > self.trouble:
            return "ok"
        return self.dice.choices(list(weights), list(weights.values()))[0]

    async def pause(self, longest_s: float = 0.3) -> None:
        await anyio.sleep(self.dice.uniform(0, longest_s))
        await self.fate.alive()

    @contextmanager
    def thread(self, unstoppable: bool) -> Generator[None]:  # noqa: FBT001 - a trait
        """What cannot be stopped, ends with its process only."""
        with anyio.CancelScope(shield=unstoppable and not self.fate.dead) as scope:
            self.fate.threads.add(scope)
            try:
                yield
            finally:
                self.fate.threads.discard(scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChanceTool:
    """The port's `Tool`."""

    offered: str
    trait: Trait
    pair: Pair
    chance: Chance
    rules: AnswerRules = field(default_factory=AnswerRules)
    listing: ToolListing = field(default_factory=lambda: ToolListing(description="", input_schema={"type": "object"}))

    @property
    def stoppable(self) -> bool:
        return not self.trait.thread

    @property
    def reachable(self) -> bool:
        """It runs here."""
        return True

    async def reach(self, within_s: float) -> None:
        """It runs here."""
        del within_s

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        return Arguments(dict(arguments))

    def replay(self, result: JsonValue, kept: JsonValue = None) -> ToolAnswer:  # noqa: ARG002 - the port's signature
        return ToolAnswer(structured=result, has_structured=True)

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        chance, outside = self.chance, self.chance.outside
        await chance.begin()
        if self.trait.kind is Kind.READ_ONLY:
            await chance.pause()
            return Landed(answer=ToolAnswer(), result=None)
        tag = str(args.json["tag"])
        how = chance.draw(FORWARD | OF_THREADS if self.trait.thread else FORWARD)
        with (
            chance.thread(self.trait.thread),
            outside.forward(chance.fate, self.offered, tag, context, idempotent=self.trait.idempotent),
        ):
            outcome = await self._called(how, context)
        outside.note(f"{chance.fate.name} hears {how} of {context.key[:4]}")
        if isinstance(outcome, Landed):
            outside.heard.append((context.key, chance.fate))
        return outcome

    async def _called(self, how: str, context: CallContext) -> Outcome:
        chance = self.chance
        await chance.pause()
        if how.startswith("slow"):
            await chance.pause(DEADLINE_S)
        if how == "stuck" and chance.dice.random() < 0.5:
            await chance.pause(DEADLINE_S * 3)
        lands = how in {"ok", "broken after", "slow", "stuck"} or (how != "refused" and chance.dice.random() < 0.5)
        if how == "slow and refused":
            lands = False
        if lands:
            try:
                await self._effects(context)
            except LogError as error:  # as an author's function passes it on
                return Missed(answer=ToolAnswer(is_error=True), effect=Effect.UNKNOWN, error=str(error))
        if how == "stuck":
            await chance.pause(DEADLINE_S * 3)
        await chance.pause()
        if "refused" in how:
            chance.outside.known_absent(context.key)
            return Missed(answer=ToolAnswer(is_error=True), effect=Effect.NONE, error=how)
        if how == "lost":
            return Lost(reason=how, end_known=chance.dice.random() < 0.5)
        if how in {"ok", "slow", "stuck"}:
            result = BAD if chance.dice.random() < 0.02 and not chance.calm else context.number
            return Landed(answer=self.replay({"n": result}), result={"n": result})
        return Missed(answer=ToolAnswer(is_error=True), effect=Effect.UNKNOWN, error=how)

    async def _effects(self, context: CallContext) -> None:
        chance = self.chance
        chance.outside.effect(context.key, context.key)
        for number in range(self.trait.parts):
            name = f"{context.key}/{number}"
            limits = PartLimits(timeout_s=TIMEOUT_S, attempts=3, first_delay_s=0.1, max_delay_s=0.5)
            args: JsonObject = {"effect": name}
            await context.register_undo(
                PartSpec(
                    action=PartAction.CALL,
                    tool=f"t.un{self.offered}",
                    entry=-1,
                    idempotent=True,
                    limits=limits,
                    args=args,
                )
            )
            await chance.pause()
            chance.outside.effect(context.key, name)

    async def probe(self, step: StepFacts) -> ProbeVerdict:
        chance, outside = self.chance, self.chance.outside
        await chance.pause()
        if not chance.calm and chance.dice.random() < 0.4 * chance.trouble:
            return NoVerdict(error="the probe failed")
        landed = outside.landed(step.key)
        verdict = Landed(answer=self.replay({"n": step.number}), result={"n": step.number}) if landed else Absent()
        if not landed and step.key not in outside.flying:
            outside.known_absent(step.key)
        outside.note(f"{chance.fate.name} probes {step.key[:4]}: {'landed' if landed else 'absent'}")
        await chance.pause()
        return verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ChanceUndo:
    """The port's `Undoer`."""

    trait: Trait
    chance: Chance
    target_id: str = "here"
    rules: AnswerRules | None = None
    schema: JsonObject | None = None

    @property
    def stoppable(self) -> bool:
        return not self.trait.thread

    async def reach(self) -> UndoMissed | None:
        return None

    async def comes_up(self) -> None:
        await self.chance.pause()

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        chance = self.chance
        await chance.begin()
        if self.trait.asks:
            return AsksPerson(message="call them")
        how = chance.draw(UNDO | OF_THREADS if self.trait.thread else UNDO)
        if how == "unreachable":
            await chance.pause()
            return UndoMissed(error=how, effect=Effect.NONE, counted=False, waits_for="the other side")
        effect = str(args["effect"])
        with (
            chance.thread(self.trait.thread),
            chance.outside.undo(chance.fate, effect, context, idempotent=not self.trait.once),
        ):
            outcome = await self._undone(how, effect, context.undo_key)
        chance.outside.note(f"{chance.fate.name} hears {how} of undo {context.undo_key[-5:]}")
        return outcome

    async def _undone(self, how: str, effect: str, key: str) -> UndoOutcome:
        chance = self.chance
        await chance.pause()
        if how == "slow":
            await chance.pause(UNDO_DEADLINE_S)
        if how in {"ok", "broken after", "slow", "stuck"}:
            chance.outside.undone(effect)
        if how == "stuck":
            await chance.pause(UNDO_DEADLINE_S * 2)
        await chance.pause()
        match how:
            case "ok" | "slow" | "stuck":
                return Undone()
            case "refused" | "gives up":
                chance.outside.known_absent(key)
                return GivesUp(message=how) if how == "gives up" else UndoMissed(error=how, effect=Effect.NONE)
            case _:
                return UndoMissed(error=how, effect=Effect.UNKNOWN)


class ChanceCatalogue(StaticCatalogue):
    """With a rule over results that needs no thread."""

    @property
    def invariants(self) -> tuple[str, ...]:
        return ("no thirteen",)

    async def violations(self, judged: Judged) -> tuple[str, ...]:
        await self._pause()
        return self.invariants if {"n": BAD} in judged.results.values() else ()

    async def _pause(self) -> None:
        await anyio.sleep(0.001)


def catalogue(chance: Chance) -> ChanceCatalogue:
    tools = [ChanceTool(offered=name, trait=trait, pair=_PAIRS[name], chance=chance) for name, trait in TRAITS.items()]
    undoers = {f"t.un{name}": ChanceUndo(trait=trait, chance=chance) for name, trait in TRAITS.items()}
    return ChanceCatalogue(tools, undoers=undoers)


def _pair(name: str, trait: Trait) -> Pair:
    entry = UndoEntry(
        action=trait.undo or PartAction.NOTHING,
        tool=f"t.un{name}" if trait.undo is PartAction.CALL else "",
        args={"effect": "${step.key}"} if trait.undo is PartAction.CALL else {},
        message="by hand",
        target_id="here",
        idempotent=not trait.once,
        needs_result=trait.needs_result,
        timeout_s=TIMEOUT_S,
        retry=QUICK,
    )
    return Pair(
        tool=f"t.{name}",
        kind=trait.kind,
        undo=() if trait.undo is None else (entry,),
        safe_if_absent=trait.undo is not None and not trait.once,
        idempotent=trait.idempotent,
        has_probe=trait.probe,
        retry=Retry(attempts=trait.attempts, first_delay_s=0.1, max_delay_s=0.5),
        timeout_s=TIMEOUT_S,
        hard_deadline_s=DEADLINE_S,
        settle_s=SETTLE_S,
        target_id="here",
    )


_PAIRS = {name: _pair(name, trait) for name, trait in TRAITS.items()}
