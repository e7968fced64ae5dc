"""What a pair keeps of the tools that it calls: how answers are read, and what undos take (SEMANTICS.md S4.5, S6.1).

The config says what a tool is today; a step is undone by what it was at its intent. What the config does not know, the
schema of an upstream's tool, is only known while serving: so pairs are frozen here, call by call, and not when they are
declared.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Protocol

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.binding.errors import Unfit
from saga_mcp.tools.binding.values import weigh
from saga_mcp.tools.pair import Capture, Guard, Pair, Probe, ReadCall, UndoEntry
from saga_mcp.tools.port import Reader, Tool, Undoer


class Tools(Protocol):
    """Where tools are found by their names in the config."""

    def tool(self, name: str) -> Tool | None:
        """A governed one."""
        ...

    def undoer(self, name: str) -> Undoer | None:
        """One that undoes."""
        ...

    def reader(self, name: str) -> Reader | None:
        """One that reads."""
        ...


class Freezer:
    """Fills in what pairs keep of the tools that they call.

    Args:
        tools: What is called; only their schemas may change.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._frozen: dict[str, tuple[tuple[JsonObject | None, ...], Pair]] = {}
        """By the hash of a pair: the schemas of its undos when it was frozen last, and what came of it."""

    def frozen(self, pair: Pair) -> Pair:
        """Return the pair as it is stored; the same object until a schema changes."""
        schemas = tuple(self._schema(entry.tool) for entry in pair.undo)
        known = self._frozen.get(pair.hash)
        if known is None or known[0] != schemas:
            known = self._frozen[pair.hash] = (schemas, self._filled(pair, schemas))
        return known[1]

    def _filled(self, pair: Pair, schemas: tuple[JsonObject | None, ...]) -> Pair:
        tool = self._tools.tool(pair.tool)
        guard, probe = pair.guard, pair.probe
        return replace(
            pair,
            rules=None if tool is None else tool.rules,
            undo=tuple(self._entry(entry, schema) for entry, schema in zip(pair.undo, schemas, strict=True)),
            capture=self._capture(pair.capture),
            after=self._capture(pair.after),
            guard=guard if guard is None or guard.call is None else self._guard(guard, guard.call),
            probe=self._probe(probe),
        )

    def _schema(self, name: str) -> JsonObject | None:
        undoer = self._tools.undoer(name) if name else None
        return None if undoer is None else undoer.schema

    def _entry(self, entry: UndoEntry, schema: JsonObject | None) -> UndoEntry:
        undoer = self._tools.undoer(entry.tool) if entry.tool else None
        return replace(
            entry,
            rules=None if undoer is None else undoer.rules,
            schema=schema if schema is not None and _storable(schema) else None,
            read=None if entry.read is None else self._call(entry.read),
            probe=self._probe(entry.probe),
        )

    def _capture(self, capture: Capture | None) -> Capture | None:
        return None if capture is None else replace(capture, call=self._call(capture.call))

    def _guard(self, guard: Guard, call: ReadCall) -> Guard:
        return replace(guard, call=self._call(call))

    def _probe(self, probe: Probe | None) -> Probe | None:
        return None if probe is None else replace(probe, call=self._call(probe.call))

    def _call(self, call: ReadCall) -> ReadCall:
        reader = self._tools.reader(call.tool)
        return replace(call, rules=None if reader is None else reader.rules)


def _storable(schema: JsonObject) -> bool:
    """Whether a foreign schema can be kept as it is: no more than a sane one needs, and nothing that is no JSON."""
    try:
        weigh(schema)
        json.dumps(schema, allow_nan=False)
    except (Unfit, ValueError):
        return False
    return True
