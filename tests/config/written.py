"""Configs written to real files, for tests of reading them."""

from pathlib import Path

import pytest

from saga_mcp.config import ConfigInvalid, LoadedConfig, load_config
from saga_mcp.tools.declared import DeclaredTool

CRM = """
from pydantic import BaseModel

class Lead(BaseModel):
    lead_id: int

def create_lead(name: str) -> Lead:
    "Create a lead."
    return Lead(lead_id=1)

def delete_lead(lead_id: int) -> None: ...

def count_leads() -> int:
    return 1
"""
TRAVEL = """
from saga_tools import Call, ToolRegistry, Undo

registry = ToolRegistry()

@registry.tool(timeout_s=5, idempotent=True)
def book(city: str, seats: int = 1) -> dict[str, int]:
    return {"ref": 1}

@registry.undoes(book, safe_if_absent=False)
def unbook(city: str, undo: Undo[dict[str, int]]) -> None: ...

@registry.tool(kind="read_only")
def look() -> int:
    return 1
"""
PLAIN = """
[python.crm]
path = "crm.py"
functions = ["create_lead", "delete_lead", "count_leads"]
"""
CREATE = """
[tools."crm.create_lead"]
undo = { tool = "crm.delete_lead", args = { lead_id = "${result.lead_id}" } }
"""
ENV = {"WORD": "s3cret", "LOG": "logs/saga.db"}


def write(folder: Path, toml: str, **files: str) -> Path:
    for name, text in {"crm": CRM, "travel": TRAVEL, **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    path = folder / "saga.toml"
    path.write_text(toml, encoding="utf-8")
    return path


def read(folder: Path, toml: str, **files: str) -> LoadedConfig:
    return load_config(write(folder, toml, **files), ENV)


def problems(folder: Path, toml: str, **files: str) -> dict[str, str]:
    path = write(folder, toml, **files)
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, ENV)
    return {problem.key: problem.message for problem in caught.value.problems}


def tools(loaded: LoadedConfig) -> dict[str, DeclaredTool]:
    return {tool.name: tool for registry in loaded.registries for tool in registry.tools}
