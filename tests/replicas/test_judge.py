"""The judge condemns: evidence that was tampered with, and servers with a fault planted in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.postgres.server import PostgresServer
from tests.replicas import planted
from tests.replicas.callers import TOOLS
from tests.replicas.judge import judge
from tests.replicas.said import Asked, Evidence, Said
from tests.replicas.schedule import Schedule
from tests.world.reading import Line, World
from tests.world.server import served

Tamper: TypeAlias = Callable[[Evidence], Evidence]


async def story(tmp_path: Path, world: World) -> Evidence:
    """What two sagas leave, one committed and one undone, with what their callers were told."""
    async with served(tmp_path / "saga.db") as server:
        kept, undone = await server.begin(), await server.begin()
        await server.call("reserve", kept, item="t1")
        for tool, arguments in (("reserve", {"item": "t2"}), ("charge", {"cents": 3})):
            await server.call(tool, undone, **arguments)
        before = len(world.lines)
        sagas = [await server.commit(kept), await server.abort(undone)]
    told = [
        _said("reserve", kept, before, tag="t1", step=1, state="active"),
        _said("saga_commit", kept, len(world.lines), state="committed", summary="committed: 1 done, 0 open"),
        _said("saga_abort", undone, len(world.lines), state="compensated", summary="compensated: 2 undone, 0 open"),
    ]
    return Evidence(
        lines=world.lines,
        sagas={saga.id: replace(saga, caller="alice") for saga in sagas},
        said=told,
        verdicts=(),
        survivors=frozenset({world.lines[0].pid}),
        callers={"alice": frozenset({"alice"}), "eve": frozenset({"eve"})},
    )


def _said(tool: str, saga_id: str, ended: int, *, tag: str = "", **facts: Any) -> Said:  # noqa: ANN401 - JSON
    asked = Asked(caller="alice", tool=tool, arguments={"saga_id": saga_id}, tag=tag)
    return Said(asked=asked, pid=1, began=0, ended=ended, facts={"id": saga_id, **facts})


async def test_a_story_that_is_true_is_not_condemned(tmp_path: Path, world: World) -> None:
    assert judge(await story(tmp_path, world)) == []


def _lines(change: Callable[[Sequence[Line]], Sequence[Line]]) -> Tamper:
    return lambda evidence: replace(evidence, lines=change(evidence.lines))


def _without(event: str, tool: str) -> Tamper:
    return _lines(lambda lines: [line for line in lines if (line.event, line.tool) != (event, tool)])


def _twice(*tools: str) -> Tamper:
    return _lines(lambda lines: [*lines, *(line for line in lines if line.tool in tools)])


def _answer(number: int, **changed: Any) -> Tamper:  # noqa: ANN401 - its fields
    def change(evidence: Evidence) -> Evidence:
        said = [*evidence.said]
        said[number] = replace(said[number], **changed)
        return replace(evidence, said=said)

    return change


def _facts(number: int, **facts: Any) -> Tamper:  # noqa: ANN401 - JSON
    return lambda evidence: _answer(number, facts={**evidence.said[number].facts, **facts})(evidence)


def _other_caller(evidence: Evidence) -> Evidence:
    asked = replace(evidence.said[2].asked, caller="eve")
    return _answer(2, asked=asked)(evidence)


def _refused(evidence: Evidence) -> Evidence:
    return _answer(0, is_error=True, facts={"code": "log_unavailable"})(evidence)


def _undone_in_the_order_it_was_done(lines: Sequence[Line]) -> Sequence[Line]:
    undos = [line for line in lines if line.undo_key]
    return [*(line for line in lines if not line.undo_key), *sorted(undos, key=lambda line: line.tool != "release")]


TAMPERED: dict[str, tuple[Tamper, str]] = {
    "doubled undo": (_twice("refund"), "refund of"),
    "doubled call": (_lines(lambda lines: [lines[0], *lines]), "was sent 2 times"),
    "lost effect": (_lines(lambda lines: lines[2:]), "is committed and does not stand"),
    "lost record": (lambda evidence: replace(evidence, sagas={}), "belongs to no step"),
    "undo that was none": (_without("did", "release"), "is compensated and stands"),
    "wrong order": (_lines(_undone_in_the_order_it_was_done), "was undone before"),
    "early report": (_answer(2, ended=6), "said to be undone while"),
    "wrong count": (_facts(2, summary="compensated: 3 undone, 0 open"), "2 steps were undone"),
    "wrong count of what is kept": (_facts(1, summary="committed: 2 done, 0 open"), "1 steps stood"),
    "wrong end": (_facts(1, state="compensated", summary="compensated: 0 undone"), "was said to have ended otherwise"),
    "success that was none": (_answer(0, ended=0), "answered with success, and not done"),
    "refusal that was none": (_refused, "refused, and sent"),
    "what is somebody else's": (_other_caller, "reached what is not its own"),
    "a name that is somebody else's": (
        lambda evidence: replace(
            evidence, said=[replace(evidence.said[0], text=evidence.said[2].saga_id, asked=_eves(evidence))]
        ),
        "names sg-",
    ),
}
"""What is done to the evidence, and what the judge says of it."""


def _eves(evidence: Evidence) -> Asked:
    return replace(evidence.said[0].asked, caller="eve", arguments={})


async def test_evidence_that_was_tampered_with_is_condemned(tmp_path: Path, world: World) -> None:
    evidence = await story(tmp_path, world)
    for how, (tamper, seen) in TAMPERED.items():
        problems = judge(tamper(evidence))
        assert any(seen in problem for problem in problems), (how, problems)


FAULTS: dict[Callable[[], None], str] = {
    planted.undos_are_sent_twice: "was sent 2 times",
    planted.undos_that_failed_count_as_done: "is compensated and stands",
    planted.steps_get_lost: "is failed and stands",
    planted.what_is_being_undone_is_called_undone: "said to be undone while",
    planted.what_was_allowed_is_sent_twice: "was sent 2 times",
    planted.nobody_is_asked: "and nobody had allowed it",
    planted.rooms_are_shared: "at the same time",
}
OFTEN = {
    planted.what_was_allowed_is_sent_twice: {"sign": 1},
    planted.nobody_is_asked: {"sign": 1},
    planted.rooms_are_shared: {"lease": 1},
}
"""What callers do then; else everything."""
SEEDS = 4
"""Among so many the first one that catches a fault must be."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_a_schedule_catches_a_planted_fault(
    own_server: PostgresServer, tmp_path: Path, fault: Callable[[], None]
) -> None:
    met: set[str] = set()
    for seed in range(SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        first = f"from tests.replicas import planted\nplanted.{fault.__name__}()\n"
        tools, answers = OFTEN.get(fault, TOOLS), 50 if fault in OFTEN else 100
        schedule = Schedule(seed, folder, own_server, first=first, calm=True, tools=tools, answers=answers)
        met.update((await schedule.play()).problems)
        if any(FAULTS[fault] in problem for problem in met):
            return
    pytest.fail(f"it was not seen; these were: {sorted(met)[:5]}")
