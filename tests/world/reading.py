"""Reads LEDGER's file: what stands in the world, what was undone, and in which order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

UNDOES: Mapping[str, str] = {
    "release": "reserve",
    "unhold": "hold",
    "refund": "charge",
    "unwire": "wire",
    "unbook": "book",
    "free_one": "reserve_one",
    "close_order": "reserve_many",
    "unmeasure": "measure",
    "put_back": "put",
}
"""What each undo takes back."""
READS = frozenset({"find_charge", "balance"})


@dataclass(frozen=True)
class Line:
    event: str
    tool: str
    key: str
    undo_key: str
    args: Mapping[str, Any]
    pid: int
    mode: str = ""
    """How the call was meant to go."""


class World:
    """The outside world of one test."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def env(self) -> dict[str, str]:
        return {"LEDGER": str(self.file)}

    def plan(self, **modes: Sequence[str]) -> None:
        """Say what the n-th call of each tool does; the last entry rules all later ones."""
        Path(f"{self.file}.plan").write_text(json.dumps(modes), encoding="utf-8")

    def go(self) -> None:
        """Let what hangs go on."""
        Path(f"{self.file}.go").touch()

    def stay(self) -> None:
        """Let what hangs from now on do so until it may go on."""
        Path(f"{self.file}.go").unlink(missing_ok=True)

    @property
    def lines(self) -> list[Line]:
        try:
            text = self.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [Line(**cast("dict[str, Any]", json.loads(line))) for line in text.splitlines()]

    def sent(self, tool: str = "") -> list[Line]:
        """Every call, in order; of one tool where it is named."""
        return [line for line in self.lines if line.event == "sent" and tool in {"", line.tool}]

    def did(self, tool: str = "") -> list[Line]:
        """Every effect, in order."""
        return [line for line in self.lines if line.event == "did" and tool in {"", line.tool}]

    @property
    def order(self) -> list[str]:
        """The effects by the tool's name and its argument, in order."""
        return [f"{line.tool}({_name(line)})" for line in self.did()]

    @property
    def standing(self) -> list[str]:
        """What stands: effects that nothing has undone since, by tool and argument."""
        stands: dict[tuple[str, str], str] = {}
        for line in self.did():
            if line.tool in UNDOES:
                stands.pop((UNDOES[line.tool], line.key), None)
            elif line.tool not in READS:
                stands[line.tool, line.key] = f"{line.tool}({_name(line)})"
        return list(stands.values())

    @property
    def doubled(self) -> list[str]:
        """Forward effects that took place more than once under one key."""
        count = Counter(
            (line.tool, line.key) for line in self.did() if line.tool not in UNDOES and line.tool not in READS
        )
        return [tool for (tool, _), times in count.items() if times > 1]

    @property
    def undo_keys(self) -> dict[str, set[str]]:
        """Under which keys each step's undo was sent."""
        keys: dict[str, set[str]] = {}
        for line in self.sent():
            if line.undo_key:
                keys.setdefault(line.key, set()).add(line.undo_key)
        return keys


def _name(line: Line) -> str:
    return str(next((line.args[name] for name in ("item", "cents", "to", "what", "items") if name in line.args), ""))
