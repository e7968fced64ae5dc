"""What is known of an upstream's tools: as they were listed last, by a living upstream or before this process began.

Kept beside the saga log, so that the tools of an upstream that does not come up stay listed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import mcp_types as types
import structlog

from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.upstream.schema import InputSchema

_log = structlog.get_logger(__name__)

_VERSION = 1


@dataclass(frozen=True)
class KnownTool:
    """One tool as its upstream lists it."""

    listed: JsonObject

    @property
    def name(self) -> str:
        """Its own name."""
        return str(self.listed["name"])

    @property
    def title(self) -> str:
        """Its name for people."""
        return str(self.listed.get("title") or self._hint("title") or "")

    @property
    def icons(self) -> tuple[JsonObject, ...]:
        """Its icons."""
        return tuple(cast("list[JsonObject]", self.listed.get("icons") or []))

    @property
    def meta(self) -> JsonObject | None:
        """What its server adds to it."""
        return cast("JsonObject | None", self.listed.get("_meta"))

    @property
    def open_world(self) -> bool:
        """Whether it says that it reaches beyond what its server holds; it does unless it denies it."""
        return self._hint("openWorldHint") is not False

    @property
    def says_read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        return self._hint("readOnlyHint") is True

    def _hint(self, name: str) -> JsonValue:
        hints = self.listed.get("annotations")
        return hints.get(name) if isinstance(hints, dict) else None

    @property
    def description(self) -> str:
        """What it says of itself."""
        return str(self.listed.get("description") or "")

    @property
    def input_schema(self) -> JsonObject:
        """What its arguments have to be."""
        return cast("JsonObject", self.listed.get("inputSchema") or {"type": "object"})

    @property
    def output_schema(self) -> JsonObject | None:
        """What its structured results are."""
        return cast("JsonObject | None", self.listed.get("outputSchema"))

    @cached_property
    def arguments(self) -> InputSchema:
        """Its input schema, ready to judge arguments."""
        return InputSchema(self.input_schema)


class KnownTools:
    """The tools of one upstream.

    Args:
        file: Where they are kept; None: nowhere.
        target_id: Of which place they are; what was kept of another is not used.
    """

    def __init__(self, file: Path | None, target_id: str) -> None:
        self._file = file
        self._target_id = target_id
        self.tools: Mapping[str, KnownTool] = self._read()

    async def replace(self, listed: Iterable[types.Tool]) -> bool:
        """Take what the upstream lists now, and keep it; whether it is something new."""
        tools = _known(listed)
        if tools == self.tools:
            return False
        self.tools = tools
        if self._file is not None:
            await anyio.to_thread.run_sync(self._write, self._file, tools)
        return True

    def _read(self) -> Mapping[str, KnownTool]:
        if self._file is None:
            return {}
        try:
            kept = cast("dict[str, Any]", json.loads(self._file.read_text(encoding="utf-8")))
            if kept["version"] != _VERSION or kept["target_id"] != self._target_id:
                return {}
            return _known(types.Tool.model_validate(tool) for tool in kept["tools"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("upstream_tools_unreadable", file=str(self._file), error_type=type(error).__name__)
            return {}

    def _write(self, file: Path, tools: Mapping[str, KnownTool]) -> None:
        content = {
            "version": _VERSION,
            "target_id": self._target_id,
            "tools": [tool.listed for tool in tools.values()],
        }
        new = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            file.parent.mkdir(mode=0o700, exist_ok=True)
            new.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
            new.replace(file)
        except OSError as error:
            _log.warning("upstream_tools_not_kept", file=str(file), error_type=type(error).__name__)


def _known(listed: Iterable[types.Tool]) -> Mapping[str, KnownTool]:
    dumped = (tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed)
    return {str(tool["name"]): KnownTool(cast("JsonObject", tool)) for tool in dumped}
