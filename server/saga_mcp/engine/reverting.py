"""Reverts: undo after the commit, by a saga that takes over the committed one's steps (SEMANTICS.md S13).

Beside the engine's other verbs because two sagas are appended to at once; what then runs is a rollback like any other.
"""

from __future__ import annotations

from dataclasses import replace

from saga_mcp.domain.errors import SagaNotFound
from saga_mcp.domain.reverting import RevertOrder, RevertPlan, plan_revert, revert
from saga_mcp.domain.state import Saga
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.first_turn import new_saga_id
from saga_mcp.engine.port import EngineSettings
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import Decision, Opening, SagaLog


async def foreseen(saga: Saga, order: RevertOrder, log: SagaLog, settings: EngineSettings, clock: Clock) -> RevertPlan:
    """What a revert would do; nothing is changed.

    Raises:
        RevertRefused: it would do nothing, and why.
    """
    return plan_revert(saga, await _timed(order, saga, log, settings, clock))


async def open_revert(shop: Workshop, saga: Saga, order: RevertOrder) -> Saga:
    """Open the saga that undoes the steps of `saga`; return it as it begins.

    Raises:
        RevertRefused: it cannot be reverted, or not so; nothing was changed.
        ResourceHeld: another saga works on what is to be undone.
        LogUnavailable: nothing was stored.
        AppendUnsettled: it is not known whether it was.
    """
    order = replace(await _timed(order, saga, shop.log, shop.settings, shop.clock), revert=new_saga_id())
    begun: list[Saga] = []

    def decide_on(now: Saga) -> Decision:
        if now.realm != shop.settings.realm:
            raise SagaNotFound(now.id)
        reverting = revert(now, order, shop.driving(now))
        begun[:] = [reverting.opened]
        return Decision(events=reverting.noted, opens=Opening(saga_id=order.revert, events=reverting.events))

    await shop.appending.append(saga.id, decide_on, settle_within_s=shop.settings.reply_within_s)
    return begun[0]


async def _timed(order: RevertOrder, saga: Saga, log: SagaLog, settings: EngineSettings, clock: Clock) -> RevertOrder:
    """The order with what the log, the config and the clock say about when it comes."""
    age_s = 0.0
    if saga.committed_seq:
        committed = await log.history(saga.id, after_seq=saga.committed_seq - 1, limit=1)
        if not committed:
            await log.load(saga.id)  # it was pruned since it was loaded: this says so
        age_s = clock.wall() - committed[0].at
    return replace(order, age_s=age_s, window_s=settings.revert_window_s)
