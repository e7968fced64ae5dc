"""An undo gets what its tool returned, or it is not built at all: never something that only looks like it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.product import Product

TOOLS = """
import os
from pathlib import Path
from typing import Any

from saga_tools import Call, ToolRegistry, Undo

registry = ToolRegistry()
FOLDER = Path(__file__).with_name("files")
ODD = os.fsdecode(b"odd\\xff")

@registry.tool
def create() -> list[str]:
    (FOLDER / ODD).touch()
    return os.listdir(FOLDER)

@registry.undoes(create)
def remove(undo: Undo[list[str]]) -> None:
    for name in undo.result or ():
        (FOLDER / name).unlink()

@registry.tool
def gauge(value: str) -> Any:
    (FOLDER / "gauged").touch()
    return {"value": {"nan": float("nan"), "object": object(), "clash": {1: 2, "1": 3}, "plain": 1.5}[value]}

@registry.undoes(gauge)
def forget(undo: Undo[Any]) -> None:
    (FOLDER / "gauged").unlink()
    (FOLDER / f"forgot {undo.result}").touch()

@registry.tool
def note(value: str, call: Call) -> float:
    (FOLDER / "noted").touch()
    return float("nan")

@registry.undoes(note)
def erase(value: str) -> None:
    (FOLDER / "noted").unlink()

def weigh() -> Any:
    (FOLDER / "weighed").touch()
    return {"kg": float("inf")}

def unweigh(kg: float | None) -> None:
    (FOLDER / "weighed").unlink()
"""
CONFIG = """
[python.files]
path = "files.py:registry"

[python.scales]
path = "files.py"
functions = ["weigh", "unweigh"]

[tools."scales.weigh"]
undo = { tool = "scales.unweigh", args = { kg = "${result.kg}" } }
"""


@pytest.fixture
def files(product: Product) -> Path:
    folder = product.folder / "files"
    folder.mkdir()
    (product.folder / "files.py").write_text(TOOLS, encoding="utf-8")
    product.configure(tools=CONFIG)
    return folder


def names(files: Path) -> list[str]:
    return [file.name for file in files.iterdir()]


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8")
async def test_an_undo_gets_a_file_name_that_is_no_text_as_it_is(product: Product, files: Path) -> None:
    async with product.serve() as agent:
        reply = await agent.call("create")
        assert not reply.is_error
        assert names(files) == [os.fsdecode(b"odd\xff")]
        assert (await agent.call("saga_abort", saga_id=reply.saga_id)).state == "compensated"
    assert names(files) == []
    code, shown = await product.run("show", reply.saga_id)
    assert code == 0, shown


@pytest.mark.parametrize(
    ("tool", "arguments", "left"),
    [
        ("gauge", {"value": "nan"}, "gauged"),
        ("gauge", {"value": "object"}, "gauged"),
        ("gauge", {"value": "clash"}, "gauged"),
        ("weigh", {}, "weighed"),
    ],
)
async def test_no_undo_is_built_from_a_result_that_could_not_be_kept(
    product: Product, files: Path, tool: str, arguments: dict[str, str], left: str
) -> None:
    async with product.serve() as agent:
        reply = await agent.call(tool, **arguments)
        assert not reply.is_error
        assert "its undo cannot be built" in reply.text
        aborted = await agent.call("saga_abort", saga_id=reply.saga_id)
        assert aborted.state == "needs_attention"
    assert names(files) == [left]
    code, shown = await product.run("attention", "--json")
    assert code == 0, shown
    assert "which JSON cannot hold exactly" in json.dumps(json.loads(shown))


@pytest.mark.parametrize(
    ("tool", "value", "left"), [("gauge", "plain", ["forgot {'value': 1.5}"]), ("note", "any", [])]
)
async def test_an_undo_that_has_the_result_or_does_without_it_runs(
    product: Product, files: Path, tool: str, value: str, left: list[str]
) -> None:
    async with product.serve() as agent:
        reply = await agent.call(tool, value=value)
        assert "undo ready" in reply.text
        assert (await agent.call("saga_abort", saga_id=reply.saga_id)).state == "compensated"
    assert names(files) == left
