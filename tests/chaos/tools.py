"""Tools of every kind at the engine's port, whose calls go as the dice say, over the outside world of a schedule."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
from tests.chaos.outside import Fate, Outside
from tests.chaos.traits import (
    BAD,
    DEADLINE_S,
    FORWARD,
    OF_THREADS,
    PAIRS,
    TIMEOUT_S,
    TRAITS_OF_A_DAY,
    UNDO,
    UNDO_DEADLINE_S,
    Trait,
)

from saga_mcp.domain.errors import LogError
from saga_mcp.domain.frozen import PartLimits, PartSpec
from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Kind, PartAction
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.catalogue import ConfiguredCatalogue
from saga_mcp.tools.pair import Pair
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
from saga_mcp.tools.unsent import UpstreamDown


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

    async def begin(self, *, elsewhere: bool) -> None:
        """A call begins; for one of them the process has little time left, and now and then for one elsewhere."""
        await self.fate.alive()
        self.calls += 1
        if self.calls == self.dies_at or (elsewhere and self.dies_at and self.dice.random() < 0.2):
            life_s = self.dice.uniform(0, 0.5)
            asyncio.get_running_loop().call_later(life_s, self._die)

    def _die(self) -> None:
        if self.dies_at and not self.fate.dead:
            self.outside.note(f"{self.fate.name} dies during call {self.calls}")
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
        return not self._down

    async def reach(self, within_s: float) -> None:
        with anyio.move_on_after(within_s):
            await self.chance.outside.comes_up(self.trait.upstream)
        self._require_up()

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        if self._down and self.chance.dice.random() < 0.5:  # else it is only just found out
            self._require_up()
        return Arguments(dict(arguments))

    @property
    def _down(self) -> bool:
        return self.chance.outside.is_down(self.trait.upstream)

    def _require_up(self) -> None:
        if self._down:
            raise UpstreamDown(self.trait.upstream, "it is down")

    def replay(self, result: JsonValue, kept: JsonValue = None) -> ToolAnswer:  # noqa: ARG002 - the port's signature
        return ToolAnswer(structured=result, has_structured=True)

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        chance, outside = self.chance, self.chance.outside
        await chance.begin(elsewhere=self.trait.elsewhere)
        if self.trait.kind is Kind.READ_ONLY:
            await chance.pause()
            return Landed(answer=ToolAnswer(), result=None)
        if self._down:
            return Missed(answer=ToolAnswer(is_error=True), effect=Effect.NONE, error="it is down: nothing was sent")
        tag = str(args.json["tag"])
        how = chance.draw(FORWARD | OF_THREADS if self.trait.thread else FORWARD)
        with (
            chance.thread(self.trait.thread),
            outside.forward(chance.fate, self.offered, tag, context, idempotent=self.trait.idempotent),
        ):
            outcome = await (self._elsewhere if self.trait.elsewhere else self._called)(how, context)
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
        if self._down:
            return Lost(reason="its server died", end_known=True)
        if how in {"ok", "slow", "stuck"}:
            result = BAD if chance.dice.random() < 0.02 and not chance.calm else context.number
            return Landed(answer=self.replay({"n": result}), result={"n": result})
        return Missed(answer=ToolAnswer(is_error=True), effect=Effect.UNKNOWN, error=how)

    async def _elsewhere(self, how: str, context: CallContext) -> Outcome:
        """What was sent takes effect, or does not, whatever becomes of whoever sent it."""
        chance = self.chance
        lands = how not in {"refused", "slow and refused", "broken before"} and (
            how in {"ok", "broken after"} or chance.dice.random() < 0.7
        )
        takes_s = chance.dice.uniform(0, 0.3 if how in {"ok", "refused"} else 0.9 * DEADLINE_S)
        chance.outside.far_away(context.key, takes_s, lands=lands)
        if how == "lost":
            await chance.pause(takes_s)
            return Lost(reason=how, end_known=False)
        if how == "stuck":
            await anyio.sleep_forever()
        await anyio.sleep(takes_s)
        await chance.pause(0.1)
        if self._down:
            return Lost(reason="its server cannot be reached", end_known=False)
        if "refused" in how:
            chance.outside.known_absent(context.key)
            return Missed(answer=ToolAnswer(is_error=True), effect=Effect.NONE, error=how)
        if how == "ok" or (how == "slow" and lands):
            return Landed(answer=self.replay({"n": context.number}), result={"n": context.number})
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
        if self._down or (not chance.calm and chance.dice.random() < 0.4 * chance.trouble):
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
        if not self.chance.outside.is_down(self.trait.upstream):
            return None
        await self.chance.pause()
        return UndoMissed(error="it is down", effect=Effect.NONE, unreached=self.trait.upstream, until_up=True)

    async def comes_up(self) -> None:
        await self.chance.pause()
        await self.chance.outside.comes_up(self.trait.upstream)

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        chance = self.chance
        await chance.begin(elsewhere=self.trait.elsewhere)
        if self.trait.asks:
            return AsksPerson(message="call them")
        how = chance.draw(UNDO | OF_THREADS if self.trait.thread else UNDO)
        if how == "unreachable":
            await chance.pause()
            return UndoMissed(error=how, effect=Effect.NONE, unreached="the other side")
        if (down := await self.reach()) is not None:
            return down
        effect = str(args["effect"])
        undone = self._undone_elsewhere if self.trait.elsewhere else self._undone
        with (
            chance.thread(self.trait.thread),
            chance.outside.undo(chance.fate, effect, context, idempotent=not self.trait.once),
        ):
            outcome = await undone(how, effect, context)
        chance.outside.note(f"{chance.fate.name} hears {how} of undo {context.undo_key[-5:]}")
        return outcome

    async def _undone_elsewhere(self, how: str, effect: str, context: UndoContext) -> UndoOutcome:
        chance, key = self.chance, context.undo_key
        lands = how in {"ok", "broken after"} or (how in {"slow", "stuck"} and chance.dice.random() < 0.7)
        takes_s = chance.dice.uniform(0, 0.3 if how in {"ok", "refused"} else 0.9 * UNDO_DEADLINE_S)
        chance.outside.undone_far_away(context, effect, takes_s, lands=lands)
        if how == "stuck":
            await chance.pause(UNDO_DEADLINE_S)
            return UndoMissed(error=how, effect=Effect.UNKNOWN, end_known=False)
        await anyio.sleep(takes_s)
        await chance.pause(0.1)
        if how == "ok" or (how == "slow" and lands):
            return Undone()
        if how in {"refused", "gives up"}:
            chance.outside.known_absent(key)
            return UndoMissed(error=how, effect=Effect.NONE)
        return UndoMissed(error=how, effect=Effect.UNKNOWN)

    async def _undone(self, how: str, effect: str, context: UndoContext) -> UndoOutcome:
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
                chance.outside.known_absent(context.undo_key)
                return GivesUp(message=how) if how == "gives up" else UndoMissed(error=how, effect=Effect.NONE)
            case _:
                return UndoMissed(error=how, effect=Effect.UNKNOWN)


class ChanceCatalogue(ConfiguredCatalogue):
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
    every = TRAITS_OF_A_DAY.items()
    tools = [ChanceTool(offered=name, trait=trait, pair=PAIRS[name], chance=chance) for name, trait in every]
    undoers = {f"t.un{name}": ChanceUndo(trait=trait, chance=chance) for name, trait in every}
    return ChanceCatalogue(tools, undoers=undoers)
