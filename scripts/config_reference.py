"""Write `docs/config.md`, the key reference of `saga.toml`, from the models that read it.

python scripts/config_reference.py
"""
# ruff: noqa: INP001 - scripts are no package

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from saga_mcp.config.alerts import AlertsTable
from saga_mcp.config.http import AuthTable, HttpTable, LimitsTable, OAuthTable, TeamTable
from saga_mcp.config.invariants import InvariantTable
from saga_mcp.config.models import (
    CaptureTable,
    CaseTable,
    GuardTable,
    ProbeTable,
    PythonTable,
    ReadTable,
    RetryTable,
    SagaTable,
    ToolTable,
    UndoProbeTable,
    UndoTable,
    UpstreamTable,
)
from saga_mcp.config.table import Table
from saga_mcp.config.temporal import TemporalTable

TARGET = Path(__file__).parent.parent / "docs" / "config.md"

_HEAD = """# `saga.toml`, key by key

This page is made from the code by `scripts/config_reference.py`. The same keys are accepted in a `.json` file. Paths
are relative to the file. The file is the one given by `--config`, else the one that `SAGA_MCP_CONFIG` names, else
`./saga.toml`.

`saga-mcp check` lists everything that is wrong, each with its key and what to do. Times are in seconds.
"""
_TABLES: tuple[tuple[str, type[Table]], ...] = (
    ("[saga]", SagaTable),
    ("[python.NAME]", PythonTable),
    ("[upstreams.NAME]", UpstreamTable),
    ('[tools."NAME.function"]', ToolTable),
    ("undo", UndoTable),
    ("undo.read", ReadTable),
    ("undo.probe", UndoProbeTable),
    ("capture, after", CaptureTable),
    ("guard", GuardTable),
    ("probe", ProbeTable),
    ("cases", CaseTable),
    ("retry", RetryTable),
    ("[[invariants]]", InvariantTable),
    ("[alerts]", AlertsTable),
    ("[temporal]", TemporalTable),
    ("[http]", HttpTable),
    ("[auth]", AuthTable),
    ("[auth.oauth]", OAuthTable),
    ("[teams.NAME]", TeamTable),
    ("[limits]", LimitsTable),
)
_NAMES: dict[type[Table], str] = {UndoProbeTable: "undo.probe", ReadTable: "undo.read", OAuthTable: "auth.oauth"}
_TYPES = {str: "text", bool: "true, false", int: "whole number", float: "number"}


def reference() -> str:
    """Return the page."""
    sections = [_section(title, table) for title, table in _TABLES]
    return "\n".join([_HEAD, *sections])


def _section(title: str, table: type[Table]) -> str:
    about = inspect.cleandoc(table.__doc__ or "")
    head = "| key | value | default | meaning |\n|---|---|---|---|"
    return "\n".join([f"## `{title}`", "", about, "", head, *_rows(table), ""])


def _rows(table: type[Table]) -> Iterator[str]:
    for name, field in table.model_fields.items():
        default = "required" if field.default is PydanticUndefined else _default(field.default)
        cells = (f"`{name}`", _shape(field.annotation), default, field.description or "")
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(value: object) -> str:
    return "" if value is None or value in ("", [], {}) else f"`{json.dumps(value)}`"


def _shape(annotation: Any) -> str:  # noqa: ANN401 - an annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{json.dumps(each)}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_shape(each) for each in arguments if each is not type(None))
    if origin is list:
        return f"list of {_shape(arguments[0])}"
    if origin is dict:
        return "table"
    if hasattr(annotation, "__metadata__"):
        return _shape(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return f"`{_NAMES.get(annotation, annotation.__name__.removesuffix('Table').lower())}` table"
    return "any" if annotation is Any else _TYPES[annotation]


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
