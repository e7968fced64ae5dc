"""What is concluded of what a read says, by itself: an error decides only for who asks for it (S4.2, S11.3)."""

from __future__ import annotations

from typing import Any

import pytest

from saga_mcp.domain.values import JsonObject, Kind
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.looks import Looks, NotSeen, Seen, World
from saga_mcp.tools.pair import Capture, Guard, Pair, ReadCall
from saga_mcp.tools.port import ReadAnswer, StepFacts

STEP = StepFacts(saga_id="sg-1", tool="x.put", number=1, key="k", args={"id": 1}, result={"id": 1}, known=True)
CALL = ReadCall(tool="x.get")


class Says:
    """A read that fails like this."""

    target_id = ""
    rules = None

    def __init__(self, error: str) -> None:
        self.error = error

    async def reach(self) -> None: ...

    async def comes_up(self) -> None: ...

    async def read(self, args: JsonObject, step: StepFacts, rules: AnswerRules | None = None) -> ReadAnswer:
        del args, step, rules
        return ReadAnswer(text=self.error, is_error=True, error=self.error)


def looks(error: str) -> Looks:
    return Looks(lambda _: Says(error))


@pytest.mark.parametrize(
    "conditions",
    [
        {"as_before": "${!now.text.contains('open')}"},
        {"as_left": "${!now.text.contains('edited by')}"},
        {"as_left": "${now.result == null}"},
        {"as_left": "${now.result.state == 'open'}"},
        {"as_left": "${now.error.contains('not found') || now.result.state == 'closed'}"},
        {"as_left": True},
    ],
)
async def test_a_guard_concludes_nothing_from_an_error_that_it_does_not_know(conditions: dict[str, Any]) -> None:
    pair = Pair(tool="x.put", kind=Kind.COMPENSABLE, guard=Guard(call=CALL, **conditions))
    assert await looks("401 token expired").guard(pair, STEP) == NotSeen("401 token expired")


@pytest.mark.parametrize(("side", "world"), [("as_left", World.AS_LEFT), ("as_before", World.AS_BEFORE)])
async def test_an_error_that_a_guard_asks_for_decides(side: str, world: World) -> None:
    guard = Guard(call=CALL, **{side: "${now.error.contains('not found')}"})  # type: ignore[arg-type] # the keys vary
    pair = Pair(tool="x.put", kind=Kind.COMPENSABLE, guard=guard)
    assert await looks("404 not found").guard(pair, STEP) is world


@pytest.mark.parametrize("absent_when", ["${now.result == null}", "${size(args.id == 1 ? 'a' : '') == 1}", True])
async def test_an_error_whose_words_nobody_reads_does_not_say_that_nothing_is_there(absent_when: str) -> None:
    pair = Pair(tool="x.put", kind=Kind.COMPENSABLE, capture=Capture(call=CALL, absent_when=absent_when))
    assert await looks("401 token expired").capture(pair, STEP) == NotSeen("401 token expired")


async def test_an_error_whose_words_are_those_of_absence_says_that_nothing_is_there() -> None:
    capture = Capture(call=CALL, absent_when="${now.text.contains('not found')}")
    pair = Pair(tool="x.put", kind=Kind.COMPENSABLE, capture=capture)
    seen = await looks("404 not found").capture(pair, STEP)
    assert isinstance(seen, Seen)
    assert seen.image["found"] is False
