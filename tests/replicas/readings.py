"""What a judge reads: the world by step, and the records beside it. Pure, and apart from the product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.replicas.said import Evidence
from tests.world.reading import READS, UNDOES, Line

from saga_mcp.domain.state import Saga, Step

UNDONE_BY: Mapping[str, str] = {
    **UNDOES,
    "unpost": "post",
    "unsign": "sign",
    "vacate": "lease",
    "fetch": "store",
    "recall": "ship",
}
"""What each undo of a schedule takes back."""


def base(key: str) -> str:
    """The key of the step, where it is that of a part of it."""
    return key.partition("/")[0]


def step_tool(tool: str) -> str:
    """The tool of the step that an effect belongs to."""
    forward = UNDONE_BY.get(tool, tool)
    return {"reserve_one": "reserve_many", "find_charge": "charge"}.get(forward, forward)


class Reading:
    """What can be read off the first lines of a world."""

    def __init__(self, lines: Sequence[Line], until: int | None = None) -> None:
        self._effects: dict[str, dict[str, list[Line]]] = {}
        """By step and then by effect: what stands, and what took it back."""
        self.undos: dict[str, list[Line]] = {}
        self.forwards: dict[str, list[Line]] = {}
        self._stands: dict[str, dict[str, Line]] = {}
        for line in lines[:until]:
            if line.event != "did" or line.tool in READS:
                continue
            step = base(line.key)
            if line.tool in UNDONE_BY:
                self.undos.setdefault(step, []).append(line)
                self._stands.get(step, {}).pop(line.key, None)
            else:
                self.forwards.setdefault(step, []).append(line)
                self._stands.setdefault(step, {})[line.key] = line

    def standing(self, step: str) -> list[Line]:
        return [*self._stands.get(step, {}).values()]

    def stands(self, step: str) -> bool:
        return bool(self._stands.get(step))

    def ever_landed(self, step: str) -> bool:
        return step in self.forwards

    def undone(self, step: str, effect: str) -> bool:
        """Whether what an undo is for is gone, by that undo."""
        return any(line.key == effect for line in self.undos.get(step, []))


class Case:
    """The evidence, by step."""

    def __init__(self, evidence: Evidence) -> None:
        self.all = evidence
        self.world = Reading(evidence.lines)
        self.steps: dict[str, tuple[Saga, Step]] = {
            saga.key_of(step.number): (saga, step) for saga in evidence.sagas.values() for step in saga.steps
        }

    def keys(self, saga: Saga) -> Iterator[tuple[str, Step]]:
        for step in saga.steps:
            yield saga.key_of(step.number), step

    def name(self, key: str) -> str:
        saga, step = self.steps[base(key)]
        return f"{saga.id}.{step.number} {step.tool}"

    def person_said(self, saga: Saga, step: Step, verb: str) -> int:
        said = [each for each in self.all.verdicts if (each.saga_id, each.step) == (saga.id, step.number)]
        return sum(each.verb.startswith(verb) for each in said)
