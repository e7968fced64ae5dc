"""Questions that a client is asked once (SEMANTICS.md S9.1): how long that is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import anyio
from tests.world.clock import NotingClock

from saga_mcp.domain.errors import SagaNotFound
from saga_mcp.domain.state import Saga
from saga_mcp.engine.port import Answer, PersonDecision, Relay
from saga_mcp.engine.relaying import Relaying
from saga_mcp.engine.workshop import Workshop


class _EmptyLog:
    async def load(self, saga_id: str) -> Saga:
        raise SagaNotFound(saga_id)


@dataclass(frozen=True, slots=True)
class _Shop:
    log: _EmptyLog = field(default_factory=_EmptyLog)
    clock: NotingClock = field(default_factory=NotingClock)


async def test_a_question_that_was_asked_in_vain_is_not_asked_again_and_forgotten_in_the_end() -> None:
    asked: list[str] = []

    async def no_answer(saga: Saga, _number: int) -> Answer | None:
        asked.append(saga.id)
        raise OSError

    async def nothing_to_decide(_saga_id: str, _decision: PersonDecision) -> Saga:
        raise AssertionError

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            relaying = Relaying(cast("Workshop", _Shop()), nothing_to_decide, tasks)
            for name in ("sg-0", "sg-0", *(f"sg-{number}" for number in range(1, 1001)), "sg-0"):
                assert await relaying.put(Saga(id=name), 1, no_answer, within_s=60) is Relay.UNANSWERED
    assert asked.count("sg-0") == 2
    assert len(asked) == 1002
