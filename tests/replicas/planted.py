"""Faults to plant in each server of a schedule, before it serves: a judge that never condemns proves nothing."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from saga_mcp.domain.attention import state_with
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import Miss, landed, missed
from saga_mcp.domain.values import Effect, JsonObject, Phase
from saga_mcp.edge import look
from saga_mcp.engine import engine, forward, undoing
from saga_mcp.engine.supervise import outcome_of
from saga_mcp.log.sql import holds
from saga_mcp.tools.port import (
    Arguments,
    CallContext,
    Outcome,
    Tool,
    UndoContext,
    Undoer,
    UndoMissed,
    Undone,
    UndoOutcome,
)


def undos_are_sent_twice() -> None:
    called = undoing._called  # pyright: ignore[reportPrivateUsage]  # the fault is planted inside

    async def twice(undoer: Undoer, args: JsonObject, context: UndoContext) -> UndoOutcome:
        await called(undoer, args, context)
        return await called(undoer, args, context)

    patch.object(undoing, "_called", twice).start()


def undos_that_failed_count_as_done() -> None:
    called = undoing._called  # pyright: ignore[reportPrivateUsage]  # see above

    async def kind(undoer: Undoer, args: JsonObject, context: UndoContext) -> UndoOutcome:
        outcome = await called(undoer, args, context)
        return Undone() if isinstance(outcome, UndoMissed) else outcome

    patch.object(undoing, "_called", kind).start()


def steps_get_lost() -> None:
    """Every fifth success is recorded as a call that did nothing."""
    calls = [0]

    def sometimes(saga: Saga, number: int, landing: Any, driving: Any) -> Any:  # noqa: ANN401 - passed on
        calls[0] += 1
        if calls[0] % 5 == 0 and saga.step(number).running:
            return missed(saga, number, Miss(effect=Effect.NONE, error="planted"), driving)
        return landed(saga, number, landing, driving)

    patch.object(forward, "landed", sometimes).start()


def what_is_being_undone_is_called_undone() -> None:
    def early(saga: Saga, waiting: Any) -> str:  # noqa: ANN401 - passed on
        return "compensated" if saga.phase is Phase.COMPENSATING else state_with(saga, waiting)

    patch.object(look, "state_with", early).start()


def what_was_allowed_is_sent_twice() -> None:
    async def twice(tool: Tool, args: Arguments, context: CallContext) -> Outcome:
        if tool.pair.tool == "office.sign":
            await outcome_of(tool, args, context)
        return await outcome_of(tool, args, context)

    patch.object(forward, "outcome_of", twice).start()


def nobody_is_asked() -> None:
    def never(*_: object) -> bool:
        return False

    patch.object(engine, "asks", never).start()


def rooms_are_shared() -> None:
    def nobody(*_: object) -> None:
        """Who holds it."""

    patch.object(holds, "holder", nobody).start()
