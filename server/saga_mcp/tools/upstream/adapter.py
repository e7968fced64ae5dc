"""The adapter of upstream tools to the port: as forward actions and as undos.

Whatever an upstream does comes back as an outcome (S4.5); nothing is raised but a cancellation from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Kind
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.hidden import completed, shown, without_key
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import (
    Arguments,
    CallContext,
    GivesUp,
    Landed,
    Lost,
    Missed,
    NoVerdict,
    Outcome,
    ProbeVerdict,
    ReadAnswer,
    ReadFailed,
    ReadOutcome,
    StepFacts,
    ToolAnswer,
    UndoContext,
    UndoMissed,
    Undone,
    UndoOutcome,
)
from saga_mcp.tools.tool_listing import ToolListing
from saga_mcp.tools.unsent import InvalidArguments, Unsent, UpstreamDown
from saga_mcp.tools.upstream.answers import Answers, answer_of, kept_of
from saga_mcp.tools.upstream.connection import Answered, Broken, Declined, NotSent, State, Upstream
from saga_mcp.tools.upstream.declared import DeclaredUpstreamTool
from saga_mcp.tools.upstream.known import KnownTool
from saga_mcp.tools.upstream.schema import misfit, unsendable

_READY_WITHIN_S = 10.0
"""How long a call waits for an upstream that is being started again."""
_ANY_OBJECT: JsonObject = {"type": "object"}


class UpstreamTool:
    """A governed tool of an upstream."""

    def __init__(self, upstream: Upstream, declared: DeclaredUpstreamTool, answers: Answers) -> None:
        self.upstream = upstream
        self.declared = declared
        self.answers = answers
        self._known: KnownTool | None = None
        self._listing = self._listed(None, missing=False)

    @property
    def listing(self) -> ToolListing:
        """As its upstream lists it, the same object until that changes."""
        tools = self.upstream.tools
        known = tools.get(self.declared.tool)
        missing = known is None and bool(tools)
        if known is not self._known or missing is not self._listing.missing:
            self._known, self._listing = known, self._listed(known, missing=missing)
        return self._listing

    def _listed(self, known: KnownTool | None, *, missing: bool) -> ToolListing:
        declared = self.declared
        if missing:
            description = f"{self.upstream.name} has no such tool."
            return ToolListing(description=description, input_schema=_ANY_OBJECT, missing=True)
        if known is None:
            description = f"A tool of {self.upstream.name}, which has not been reached yet."
            return ToolListing(description=description, input_schema=_ANY_OBJECT)
        return ToolListing(
            description=known.description,
            input_schema=shown(known.input_schema, self.pair),
            output_schema=known.output_schema,
            title=known.title,
            icons=known.icons,
            meta=known.meta,
            open_world=known.open_world,
            takes_step_key=declared.takes_step_key,
            on_repeat=declared.on_repeat,
        )

    @property
    def offered(self) -> str:
        """The name under which agents see it."""
        return self.declared.offered

    @property
    def pair(self) -> Pair:
        """What is frozen at an intent."""
        return self.declared.pair

    @property
    def rules(self) -> AnswerRules:
        """How its answers are read today."""
        return self.answers.rules

    @property
    def stoppable(self) -> bool:
        """The wait for its answer is; what that leaves unknown is in the outcome."""
        return True

    @property
    def reachable(self) -> bool:
        """Whether its upstream is up."""
        return self.upstream.state is State.UP

    async def reach(self, within_s: float) -> None:
        """Wait until its upstream is up.

        Raises:
            UpstreamDown: it is down, or not up in time.
        """
        await self.upstream.ready(min(within_s, _READY_WITHIN_S))

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        """Validate once, against the upstream's own schema; the defaults that it states included.

        Raises:
            InvalidArguments: they do not fit; every problem at once.
            UpstreamDown: it is known that nothing could be sent, or not known what the tool takes.
        """
        self.upstream.require_up()
        known = self.upstream.tools.get(self.declared.tool)
        if known is None:
            starting = self.upstream.state is State.STARTING
            reason = "it is still starting" if starting else self.upstream.lacks(self.declared.tool)
            raise UpstreamDown(self.upstream.name, reason)
        decoded = known.arguments.decoded(completed(arguments, self.pair))
        if problems := known.arguments.problems(decoded):
            raise InvalidArguments(problems)
        return Arguments(without_key(decoded, self.pair))

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        """Do the forward action."""
        answers = self.answers.by(context.rules)
        try:
            heard = await self.upstream.call(
                self.declared.tool,
                args.json,
                may_stop=self.pair.kind is Kind.READ_ONLY,
                ready_within_s=_READY_WITHIN_S,
                report=context.report,
            )
        except anyio.get_cancelled_exc_class():
            # Only our wait has ended here: the upstream was not asked to stop, and may still act.
            return Lost(reason="deadline", end_known=False)
        match heard:
            case Answered(result=raw):
                read = answers.read(raw, args.json)
                if read.effect is None:
                    return Landed(answer=read.answer, result=read.result, kept=kept_of(read.answer, read.result))
                return Missed(answer=read.answer, effect=read.effect, error=read.error)
            case Declined(code=code, message=message):
                effect = answers.declined(code, message, args.json)
                return Missed(answer=_said(message), effect=effect, error=message)
            case NotSent(reason=reason):
                return Unsent(reason=reason)
            case Broken(reason=reason, end_known=end_known):
                return Lost(reason=reason, end_known=end_known)

    def replay(self, result: JsonValue, kept: JsonValue) -> ToolAnswer:
        """Return the answer of a stored result, block for block where it was not too long to be kept."""
        return answer_of(result, kept)

    async def probe(self, step: StepFacts) -> ProbeVerdict:
        """Nothing here asks an upstream whether a step landed."""
        return NoVerdict(error=f"{step.tool} has no probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamUndo:
    """A tool of an upstream, declared or not, as an undo calls it."""

    upstream: Upstream
    tool: str
    answers: Answers

    @property
    def stoppable(self) -> bool:
        """The wait for its answer is."""
        return True

    @property
    def target_id(self) -> str:
        """The upstream's."""
        return self.upstream.declared.target_id

    @property
    def rules(self) -> AnswerRules:
        """How its answers are read today."""
        return self.answers.rules

    @property
    def schema(self) -> JsonObject | None:
        """As its upstream lists it; None: it does not."""
        known = self.upstream.tools.get(self.tool)
        return None if known is None else known.input_schema

    async def reach(self) -> UndoMissed | None:
        """Wait a short while for its upstream, which may be about to come up."""
        return await _reach(self.upstream)

    async def comes_up(self) -> None:
        """Return when its upstream is up."""
        await self.upstream.comes_up()

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        """Undo; what does not fit the tool as it is today is for a person, and nothing is sent (S6.9)."""
        answers = self.answers.by(context.rules)
        if (missed := await self.reach()) is not None:
            return missed
        known = self.upstream.tools.get(self.tool)
        if known is None:
            return GivesUp(message=f"schema changed: {self.upstream.name}: {self.upstream.lacks(self.tool)}")
        decoded = known.arguments.decoded(args)
        if problems := known.arguments.problems(decoded):
            return GivesUp(message=misfit(problems, was=context.schema, now=known.input_schema))
        heard = await self.upstream.call(self.tool, decoded, may_stop=False, ready_within_s=_READY_WITHIN_S)
        match heard:
            case Answered(result=raw):
                read = answers.read(raw, decoded)
                if read.effect is None:
                    return Undone(answer=read.answer.text)
                return UndoMissed(
                    error=read.error,
                    effect=read.effect,
                    answered=not read.undecided,
                    text=read.answer.text,
                    result=read.result,
                )
            case Declined(code=code, message=message):
                return UndoMissed(error=message, effect=answers.declined(code, message, decoded), answered=True)
            case NotSent(reason=reason):
                return UndoMissed(error=reason, effect=Effect.NONE, unreached=self.upstream.name)
            case Broken(reason=reason, end_known=end_known):
                return UndoMissed(error=reason, effect=Effect.UNKNOWN, end_known=end_known)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamReader:
    """A read-only tool of an upstream, as a capture, guard or the like calls it."""

    upstream: Upstream
    tool: str
    answers: Answers

    @property
    def target_id(self) -> str:
        """The upstream's."""
        return self.upstream.declared.target_id

    @property
    def rules(self) -> AnswerRules:
        """How its answers are read today."""
        return self.answers.rules

    async def reach(self) -> UndoMissed | None:
        """Wait a short while for its upstream, which may be about to come up."""
        return await _reach(self.upstream)

    async def comes_up(self) -> None:
        """Return when its upstream is up."""
        await self.upstream.comes_up()

    async def read(self, args: JsonObject, step: StepFacts, rules: AnswerRules | None = None) -> ReadOutcome:
        """Read; a tool's own error is an answer, and only whoever asked knows what it means."""
        del step
        answers = self.answers.by(rules)
        if no_json := unsendable(args):
            return ReadFailed(reason=no_json)
        heard = await self.upstream.call(self.tool, args, may_stop=True, ready_within_s=_READY_WITHIN_S)
        match heard:
            case Answered(result=raw):
                read = answers.read(raw, args)
                if read.undecided:
                    return ReadFailed(reason=read.error)
                failed = read.effect is not None
                result = None if failed else read.result
                return ReadAnswer(text=read.answer.text, result=result, is_error=failed, error=read.error)
            case Declined(message=reason):
                return ReadFailed(reason=reason)
            case NotSent(reason=reason) | Broken(reason=reason):
                return ReadFailed(reason=reason, unreached=self.upstream.name)


async def _reach(upstream: Upstream) -> UndoMissed | None:
    try:
        await upstream.ready(_READY_WITHIN_S)
    except UpstreamDown as down:
        return UndoMissed(error=str(down), effect=Effect.NONE, unreached=upstream.name, until_up=True)
    return None


def _said(text: str) -> ToolAnswer:
    return ToolAnswer(content=({"type": "text", "text": text},), is_error=True)
