"""Values of the saga log as authors may have them: the log's own are shared by everything that reads the saga."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from saga_mcp.domain.values import JsonValue


class Copies(Mapping[str, Any]):
    """A mapping whose values are copied, each when it is first looked at."""

    def __init__(self, values: Mapping[str, JsonValue]) -> None:
        self._values = values
        self._copies: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a JSON value, as authors see it
        if name not in self._copies:
            self._copies[name] = copy.deepcopy(self._values[name])
        return self._copies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
