"""What undos and probes see of other steps: the last result of each tool, as of a step's intent (SEMANTICS.md S6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from saga_mcp.domain.results import last_succeeded
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonValue


class ResultsThen(Mapping[str, JsonValue]):
    """The last result of each tool as of a step's intent; computed only if somebody looks (most undos do not)."""

    def __init__(self, saga: Saga, step: Step, offered: Callable[[str], str]) -> None:
        self._saga = saga
        self._step = step
        self._offered = offered
        self._found: dict[str, JsonValue] | None = None

    def _all(self) -> dict[str, JsonValue]:
        if self._found is None:
            done = last_succeeded(self._saga, self._step.intent_seq)
            # By the names that the agent had then: the pair that looks at them was frozen with those.
            here = {step.plan.offered or self._offered(step.tool): step.result for step in done}
            self._found = {self._offered(tool): result for tool, result in self._step.results.items()} | here
        return self._found

    def __getitem__(self, name: str) -> JsonValue:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
