"""The judge of what people are asked (SEMANTICS.md S9.1), and of what one saga holds at a time (S9.2)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.replicas.readings import UNDONE_BY, Case, base
from tests.world.reading import Line

from saga_mcp.domain.values import StepState

ASKS = ".sign"
"""The tool whose calls a person has to allow, in any registry."""
HOLDS = frozenset({"lease", "vacate"})
"""What is done to rooms."""


def _people_are_asked(case: Case) -> Iterator[str]:
    """What was not allowed, or was rejected, or came too late is never sent; what was allowed not before."""
    sent = _first_lines(case.all.lines)
    for key, (saga, step) in case.steps.items():
        if not step.tool.endswith(ASKS):
            continue
        name = case.name(key)
        said = [verdict for verdict in case.all.verdicts if (verdict.saga_id, verdict.step) == (saga.id, step.number)]
        allowed = [verdict.at for verdict in said if verdict.verb == "approve"]
        if saga.final and step.state is StepState.AWAITING_APPROVAL:
            yield f"{name} still waits for a person, and its saga is {saga.phase}"
        if key not in sent:
            continue
        if not allowed:
            yield f"{name} was sent, and nobody had allowed it"
        elif sent[key] < min(allowed):
            yield f"{name} was sent before it was allowed"
        if any(verdict.verb == "reject" and verdict.sure for verdict in said):
            yield f"{name} was sent, and had been rejected"
        if step.state is StepState.CANCELLED:
            yield f"{name} was sent, and counts as {step.cancelled}"


def _what_is_allowed_is_what_was_asked(case: Case) -> Iterator[str]:
    """The stored arguments are those of the agent, and those that are sent."""
    asked = {said.asked.tag: said.asked.arguments for said in case.all.said if said.asked.tool == "sign"}
    for line in case.all.lines:
        if line.tool != "sign" or line.key not in case.steps:
            continue
        stored = case.steps[line.key][1].plan.args
        of_agent = asked.get(str(line.args["item"]), {})
        for whose, args in (("stored", stored), ("asked for", of_agent)):
            if _values(args) != _values(line.args):
                yield f"{case.name(line.key)} was {line.event} with {line.args} in place of what was {whose}: {args}"


def _values(args: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: args.get(name) for name in ("item", "number", "terms")}


def _first_lines(lines: Sequence[Line]) -> Mapping[str, int]:
    first: dict[str, int] = {}
    for at, line in enumerate(lines):
        first.setdefault(base(line.key), at)
    return first


def _rooms_are_held_by_one_saga_at_a_time(case: Case) -> Iterator[str]:
    """From the first line that a saga has about a room, until nothing of it stands or goes on, it is the only one."""
    rooms: dict[str, list[Line]] = {}
    for line in case.all.lines:
        if line.tool in HOLDS and line.key in case.steps:
            rooms.setdefault(str(line.args["room"]), []).append(line)
    for room, lines in rooms.items():
        of_saga = [case.steps[line.key][0].id for line in lines]
        for start, end in _spans(lines, of_saga):
            for at in range(start, end):
                if of_saga[at] != of_saga[start]:
                    yield (
                        f"{room} was of {case.name(lines[start].key)} and {case.name(lines[at].key)} at the same time: "
                        f"{lines[at].event} {lines[at].tool} within {lines[start].event} {lines[start].tool} to "
                        f"{lines[end].event} {lines[end].tool}"
                    )


def _spans(lines: Sequence[Line], of_saga: Sequence[str]) -> Iterator[tuple[int, int]]:
    """From each line to the next one of its saga, where the room is the saga's own in between."""
    last = {line.key: at for at, line in enumerate(lines)}
    for saga_id in {*of_saga}:
        mine = [at for at, of in enumerate(of_saga) if of == saga_id]
        stands: set[str] = set()
        goes_on: set[str] = set()
        for at, following in itertools.pairwise(mine):
            line = lines[at]
            goes_on.add(line.key)
            if line.event == "did" and line.tool in UNDONE_BY:
                stands.discard(line.key)
            elif line.event == "did":
                stands.add(line.key)
            goes_on = {key for key in goes_on if last[key] > at}
            if stands or goes_on:
                yield at, following


CHECKS = (_people_are_asked, _what_is_allowed_is_what_was_asked, _rooms_are_held_by_one_saga_at_a_time)
