"""The adapter of Python undos: what an author registered, or a function that a pair in the config calls."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Urgency
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.copies import Copies
from saga_mcp.tools.declared import DeclaredTool
from saga_mcp.tools.port import Arguments, AsksPerson, GivesUp, StepFacts, UndoContext, UndoMissed, Undone, UndoOutcome
from saga_mcp.tools.python import PythonRegistry, call_beside, call_registered, effect_of_errors, schema_changed
from saga_mcp.tools.running import Ended, Returned, describe, run
from saga_tools import CannotUndo, NeedsPerson, NoEffect, SagaToolsError, Undo
from saga_tools.server import RegisteredTool, RegisteredUndo


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonUndo:
    """A registered undo or part."""

    registry: PythonRegistry
    registered: RegisteredUndo

    @property
    def sees_result(self) -> bool:
        """Whether it may look at the forward action's result, whatever its arguments are."""
        return self.registered.undo_parameter is not None

    @property
    def stoppable(self) -> bool:
        """A coroutine is, a thread is not."""
        return self.registered.is_async

    @property
    def target_id(self) -> str:
        """The registry's."""
        return self.registry.target_id

    @property
    def rules(self) -> None:
        """None: whatever it raises, its effect is unknown."""

    @property
    def schema(self) -> None:
        """None: today's types decode what is stored (S6.9)."""

    async def reach(self) -> UndoMissed | None:
        """It runs here."""
        return None

    async def comes_up(self) -> None:
        """It runs here."""

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        """Undo; stored values that do not fit today's types are for a person, and nothing is called (S6.9)."""
        try:
            kwargs = self.registered.arguments.kwargs_from_json(args)
            if self.registered.undo_parameter is not None:
                kwargs[self.registered.undo_parameter] = undo_of(
                    self.registry, context.step.tool, context.step, key=context.undo_key, cause=context.cause
                )
        except SagaToolsError as error:
            return GivesUp(message=schema_changed(error))
        ended = await run(
            partial(self.registered.function, **kwargs),
            is_async=self.registered.is_async,
            threads=self.registry.threads.undo,
        )
        return _undo_outcome(ended, Effect.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAsUndo:
    """A Python function that a pair in the config calls as an undo."""

    registry: PythonRegistry
    declared: DeclaredTool

    @property
    def stoppable(self) -> bool:
        """A coroutine is, a thread is not."""
        return self.declared.registered.is_async

    @property
    def target_id(self) -> str:
        """The registry's."""
        return self.registry.target_id

    @property
    def rules(self) -> AnswerRules:
        """How its errors are read today."""
        return self.declared.rules

    @property
    def schema(self) -> None:
        """None: today's types decode what is stored (S6.9)."""

    async def reach(self) -> UndoMissed | None:
        """It runs here."""
        return None

    async def comes_up(self) -> None:
        """It runs here."""

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        """Call it, with the undo's own key."""
        call = call_beside(context.step, context.undo_key, self.registry, "an undo")
        registered = self.declared.registered
        try:
            decoded = registered.decode(args)
        except SagaToolsError as error:
            return GivesUp(message=schema_changed(error))
        ended = await call_registered(
            registered, Arguments(dict(decoded.json), decoded.kwargs), call, self.registry.threads.undo
        )
        return _undo_outcome(ended, effect_of_errors(context.rules or self.rules))


def undo_of(registry: PythonRegistry, tool: str, step: StepFacts, *, key: str = "", cause: str = "") -> Undo[Any]:
    """Return what an undo or a guard is told about its step.

    Raises:
        SagaToolsError: what is stored does not fit today's types.
    """
    forward = registry.forward(tool)
    if forward is None:
        message = f"{tool} is not in python.{registry.name}, so its arguments and result cannot be read"
        raise SagaToolsError(message)
    return Undo(
        args=forward.kwargs_from_json(step.args, step.sealed),
        result=forward.decode_result(step.result) if step.known else None,
        call_key=step.key,
        key=key,
        cause=cause,
        results=Copies(step.results),
        deps=registry.deps,
        capture=_captured(forward, step.capture),
    )


def _captured(forward: RegisteredTool, capture: JsonValue) -> object:
    """What an author's capture returned; one that the config declared, as expressions see it."""
    if not isinstance(capture, dict):
        return None
    if forward.capture is None:
        return copy.deepcopy(capture)
    return forward.capture.result.decode(capture["result"]) if capture["found"] else None


def _undo_outcome(ended: Ended, effect: Effect) -> UndoOutcome:
    if isinstance(ended, Returned):
        return Undone()
    error = ended.error
    if isinstance(error, NeedsPerson):
        return AsksPerson(message=error.message, urgency=Urgency(error.urgency))
    if isinstance(error, CannotUndo):
        return GivesUp(message=describe(error))
    known_absent = isinstance(error, NoEffect) or not ended.started
    effect = Effect.NONE if known_absent else effect
    return UndoMissed(error=describe(error), effect=effect, answered=ended.started)
