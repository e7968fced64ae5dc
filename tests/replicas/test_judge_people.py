"""The judge condemns what was not allowed, what was rejected, what was changed, and rooms that two sagas had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.replicas import office
from tests.replicas.judge import judge
from tests.replicas.said import Asked, Evidence, Said, Verdict
from tests.world.reading import Line, World
from tests.world.server import served

from saga_mcp.domain.approvals import approve
from saga_mcp.domain.errors import ResourceHeld

Tamper: TypeAlias = Callable[[Evidence], Evidence]
SIGNED = {"item": "t1", "number": 2**53 + 1, "terms": {"days": [2**62]}}


async def story(tmp_path: Path, world: World) -> Evidence:
    """A contract that a person allowed, and a room that two sagas had one after the other."""
    async with served(tmp_path / "saga.db", tools=office.registry) as server:
        first, second = await server.begin(), await server.begin()
        await server.call("sign", first, **SIGNED)
        before = len(world.lines)
        await server.engine.decide_item(first, lambda saga, _: approve(saga, 1, by="ada", note="", now=0.0))
        await server.until(first, lambda saga: saga.step(1).landed is True)
        await server.call("lease", first, item="t2", room="a")
        with pytest.raises(ResourceHeld):
            await server.call("lease", second, item="t3", room="a")
        await server.abort(first)
        await server.rest(first)
        await server.call("lease", second, item="t4", room="a")
        await server.commit(second)
        sagas = [await server.engine.saga(each) for each in (first, second)]
    asked = Asked(caller="alice", tool="sign", arguments={"saga_id": first, **SIGNED}, tag="t1")
    return Evidence(
        lines=world.lines,
        sagas={saga.id: replace(saga, caller="alice") for saga in sagas},
        said=[Said(asked=asked, pid=1, began=0, ended=before, is_error=True, facts={"code": "approval_needed"})],
        verdicts=[Verdict(first, 1, "approval", "approve", before)],
        survivors=frozenset(),
        callers={"alice": frozenset({"alice"})},
    )


async def test_a_story_that_is_true_is_not_condemned(tmp_path: Path, world: World) -> None:
    assert judge(await story(tmp_path, world)) == []


def _said(**changed: Any) -> Tamper:  # noqa: ANN401 - its fields
    return lambda evidence: replace(evidence, verdicts=[replace(evidence.verdicts[0], **changed)])


def _lines(change: Callable[[Sequence[Line]], Sequence[Line]]) -> Tamper:
    return lambda evidence: replace(evidence, lines=change(evidence.lines))


def _changed(lines: Sequence[Line]) -> Sequence[Line]:
    signed = {**SIGNED, "number": float(2**53 + 1)}  # what becomes of it in a double
    return [replace(line, args=signed) if line.tool == "sign" else line for line in lines]


def _last_first(lines: Sequence[Line]) -> Sequence[Line]:
    """The second saga has the room before the first one has left it."""
    left = next(at for at, line in enumerate(lines) if line.tool == "vacate")
    return [*lines[:left], *lines[-2:], *lines[left:-2]]


TAMPERED: dict[str, tuple[Tamper, str]] = {
    "a question that nobody answered": (lambda evidence: replace(evidence, verdicts=()), "nobody had allowed it"),
    "an answer that came later": (_said(at=9), "was sent before it was allowed"),
    "a rejection": (_said(verb="reject"), "had been rejected"),
    "allowed once, done twice": (_lines(lambda lines: [*lines[:2], *lines]), "was sent 2 times"),
    "another number": (_lines(_changed), "in place of what was stored"),
    "two sagas in one room": (_lines(_last_first), "at the same time"),
}
"""What is done to the evidence, and what the judge says of it."""


async def test_evidence_that_was_tampered_with_is_condemned(tmp_path: Path, world: World) -> None:
    evidence = await story(tmp_path, world)
    for how, (tamper, seen) in TAMPERED.items():
        problems = judge(tamper(evidence))
        assert any(seen in problem for problem in problems), (how, problems)
