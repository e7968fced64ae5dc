"""A person who settles what waits, by looking at the outside world and saying what is there."""

from __future__ import annotations

import random
from collections.abc import Callable

import anyio
from tests.chaos.outside import Outside

from saga_mcp.domain.approvals import approve, reject
from saga_mcp.domain.attention import Item, items
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.person_decisions import exempt, resolve_absent, resolve_undone, retry
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import ItemKind, PartAction, StepState
from saga_mcp.engine.engine import Engine

_Verb = Callable[..., tuple[Event, ...]]


class Person:
    def __init__(self, dice: random.Random, outside: Outside) -> None:
        self._dice = dice
        self._outside = outside

    async def settle(self, engine: Engine, saga: Saga, item: Item) -> None:
        """Do what the item asks for, as what stands in the world demands."""
        outside = self._outside
        if self._dice.random() < 0.6:
            # Mostly, a person lets a call that is still on its way come to its end first.
            while not outside.quiet():  # noqa: ASYNC110 - a person looks now and then
                await anyio.sleep(1.0)
            if outside.database.heads[saga.id].seq != saga.seq:
                return
        outside.note(f"a person sees {item.kind} at step {item.step}: {item.message}")
        if item.kind in {ItemKind.APPROVAL, ItemKind.IDLE}:
            await self._answer(engine, saga, item)
            return
        if item.kind is ItemKind.INVARIANT or self._dice.random() < 0.04:
            await self._say(engine, saga, item, exempt)
            return
        step = saga.step(item.step)
        key = outside.key(saga, step)
        match item.kind:
            case ItemKind.IN_DOUBT | ItemKind.RETRIABLE_EXHAUSTED if outside.landed(key) or step.landed:
                await self._landed(engine, saga, step)
            case ItemKind.IN_DOUBT:
                outside.known_absent(key)
                await self._say(engine, saga, item, resolve_absent)
            case ItemKind.RETRIABLE_EXHAUSTED:
                outside.known_absent(key)
                await self._say(engine, saga, item, retry)
            case ItemKind.CANNOT_BUILD if step.state is not StepState.COMPENSATING and outside.landed(key):
                await self._landed(engine, saga, step)
            case ItemKind.UNDO_IN_DOUBT | ItemKind.DEAD_LETTER if self._stands(key, step) and outside.quiet():
                for doubt in [doubt for doubt in outside.doubts if doubt.startswith(f"{key}.u")]:
                    outside.known_absent(doubt)
                await self._say(engine, saga, item, retry)
            case _:
                undone = self._undo_by_hand(key, step, item)
                try:
                    await self._say(engine, saga, item, resolve_undone)
                finally:
                    if item in items(outside.database.heads[saga.id]):  # nobody has been told: it is put back
                        outside.stands.update(undone)

    async def _answer(self, engine: Engine, saga: Saga, item: Item) -> None:
        """What is asked, or was forgotten, harms nobody either way."""
        if item.kind is ItemKind.IDLE:
            if self._dice.random() < 0.5:
                failed = tuple(step.number for step in saga.steps if step.state is StepState.FAILED)
                await engine.commit(saga.id, by="ada", accept_failed=failed)
            else:
                await engine.abort(saga.id, cause="operator", by="ada")
            return
        allows, now = self._dice.random() < 0.7, self._outside.wall()

        def decision(saga: Saga, driving: Driving) -> tuple[Event, ...]:
            if allows:
                return approve(saga, item.step, by="ada", note="asked", now=now)
            return reject(saga, item.step, by="ada", note="no", driving=driving)

        await engine.decide_item(saga.id, decision)

    async def _landed(self, engine: Engine, saga: Saga, step: Step) -> None:
        self._outside.told.add(self._outside.key(saga, step))
        await engine.resolve_landed(saga.id, step.number, result={"n": step.number}, known=True, by="ada", note="seen")

    async def _say(self, engine: Engine, saga: Saga, item: Item, verb: _Verb) -> None:
        if item.step:
            self._outside.told.add(self._outside.key(saga, saga.step(item.step)))

        def decision(now: Saga, driving: Driving) -> tuple[Event, ...]:
            return verb(now, item.step, by="ada", note="looked", driving=driving)

        await engine.decide_item(saga.id, decision)

    def _stands(self, key: str, step: Step) -> bool:
        return any(name in self._outside.stands for name in _next_effects(key, step))

    def _undo_by_hand(self, key: str, step: Step, item: Item) -> dict[str, str]:
        whole = item.kind in {ItemKind.LATE_EFFECT, ItemKind.CANNOT_BUILD}
        names = [name for name, of in self._outside.stands.items() if of == key] if whole else _next_effects(key, step)
        undone = {name: key for name in names if name in self._outside.stands}
        for name in names:
            self._outside.undone(name)
        return undone


def _next_effects(key: str, step: Step) -> list[str]:
    part = step.next_part
    if part is None:
        return []
    return [str(part.spec.args["effect"])] if part.spec.action is PartAction.CALL else [key]
