"""What an injected failure says of a call that failed by itself: no more than is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from saga_mcp.cli.injecting import InjectingTool, Injection
from saga_mcp.domain.values import Effect
from saga_mcp.tools.failing import Often, When
from saga_mcp.tools.port import Arguments, CallContext, Landed, Lost, Missed, Outcome, Tool, ToolAnswer
from saga_mcp.tools.unsent import Unsent

ANSWER = ToolAnswer()


@dataclass
class Answering:
    """The port's `Tool`, as far as it is called."""

    outcome: Outcome

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        del args, context
        return self.outcome


async def injected(outcome: Outcome) -> Outcome:
    tool = cast("Tool", Answering(outcome))
    injecting = InjectingTool(tool, (Injection("hold", When.AFTER, Often()),))
    return await injecting.call(Arguments({}), cast("CallContext", None))


@pytest.mark.parametrize(
    "outcome",
    [
        Lost(reason="its connection broke", end_known=False),
        Unsent(reason="it is down"),
        Missed(answer=ANSWER, effect=Effect.NONE, error="refused"),
    ],
)
async def test_a_call_that_failed_by_itself_is_what_it_is(outcome: Outcome) -> None:
    assert await injected(outcome) == outcome


async def test_a_call_that_did_its_work_is_said_to_have_failed() -> None:
    failed = await injected(Landed(answer=ANSWER, result={}))
    assert isinstance(failed, Missed)
    assert failed.effect is Effect.UNKNOWN
