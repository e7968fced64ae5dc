"""The JSON Schema of a config, made from the models that read it: editors complete and check a file with it.

It can say less than `check`, which also looks at the code that a config names.
"""

from __future__ import annotations

from pydantic import Field

from saga_mcp.config.alerts import AlertsTable
from saga_mcp.config.http import AuthTable, HttpTable, LimitsTable, TeamTable
from saga_mcp.config.invariants import InvariantTable
from saga_mcp.config.models import PythonTable, SagaTable, ToolTable, UpstreamTable
from saga_mcp.config.table import Table
from saga_mcp.domain.values import JsonObject


class _SagaToml(Table):
    """A config of saga-mcp."""

    saga: SagaTable = Field(
        default_factory=lambda: SagaTable.model_validate({}), description="what holds for all sagas"
    )
    python: dict[str, PythonTable] = Field(default_factory=dict[str, PythonTable], description="Python tools, by name")
    upstreams: dict[str, UpstreamTable] = Field(
        default_factory=dict[str, UpstreamTable], description="servers whose tools are governed, by name"
    )
    tools: dict[str, ToolTable] = Field(
        default_factory=dict[str, ToolTable], description='what a tool is and what undoes it, by `"NAME.function"`'
    )
    invariants: list[InvariantTable] = Field(
        default_factory=list[InvariantTable], description="rules that have to hold after each step"
    )
    http: HttpTable | None = Field(None, description="how `saga-mcp serve --http` is reached")
    auth: AuthTable | None = Field(None, description="who may call a server over HTTP")
    teams: dict[str, TeamTable] = Field(
        default_factory=dict[str, TeamTable], description="callers that may work on one saga, by the team's name"
    )
    limits: LimitsTable | None = Field(None, description="how much one caller may have and send over HTTP")
    alerts: AlertsTable | None = Field(None, description="who is told of what waits for a person")


def config_schema() -> JsonObject:
    """Return the JSON Schema of `saga.toml`, and of the same keys in a `.json` file."""
    schema = _SagaToml.model_json_schema()
    # A validator of ours takes one entry without its list, which the schema of the list does not show.
    schema["$defs"]["ToolTable"]["properties"]["undo"]["anyOf"].insert(0, {"$ref": "#/$defs/UndoTable"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "saga.toml"}
