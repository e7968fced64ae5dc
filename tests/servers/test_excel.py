"""The preset of the Excel server, over the server itself: a workbook comes back byte for byte."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.servers.behind import Behind, tree

from saga_mcp.tools.presets import load_preset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("set_workbook_settings", {"settings": {"doc_properties": {"title": "Plan"}}}),
    ("write_range", {"sheet": "Data", "at": "F1", "rows": [["new", 1]]}),
    ("format_range", {"sheet": "Data", "range": "A1:C1", "style": {"bold": True}}),
    ("set_note", {"sheet": "Data", "cell": "A1", "text": "note"}),
    ("set_note", {"sheet": "Data", "cell": "B2", "text": "second"}),
    ("delete_note", {"sheet": "Data", "cell": "A1"}),
    ("set_defined_name", {"name": "Prices", "refers_to": "Data!$C$2:$C$5"}),
    ("delete_defined_name", {"name": "Old"}),
    ("set_sheet_layout", {"sheet": "Data", "layout": {"freeze_panes": "A2"}}),
    (
        "add_conditional_format",
        {"sheet": "Data", "range": "C2:C5", "rule": {"type": "data_bar", "colors": ["#638EC6"]}},
    ),
    ("add_data_validation", {"sheet": "Data", "range": "A2:A5", "rule": {"type": "list", "options": ["tea", "milk"]}}),
    ("sort_range", {"sheet": "Data", "range": "A1:C5", "sort_by": [{"column": "price"}]}),
    ("replace_cells", {"query": "tea", "replacement": "coffee"}),
    ("transform_range", {"sheet": "Data", "range": "A1:C5", "transform": {"operation": "remove_duplicates"}}),
    ("copy_range", {"sheet": "Data", "range": "A1:B2", "at": "H1"}),
    ("merge_cells", {"sheet": "Data", "range": "H5:I5"}),
    ("goal_seek", {"sheet": "Data", "cell": "E2", "target": 10, "changing_cell": "E1"}),
    ("create_chart", {"sheet": "Data", "chart_type": "column", "at": "K1", "source": "Data!A1:C5"}),
    ("insert_image", {"sheet": "Data", "image_path": "dot.png", "at": "M1", "name": "Dot"}),
    ("delete_image", {"sheet": "Data", "name": "Dot"}),
    ("add_sparklines", {"sheet": "Data", "range": "D2:D3", "source": "Data!B2:C3"}),
    ("delete_sparklines", {"sheet": "Data", "range": "D2:D3"}),
    ("set_table", {"sheet": "Other", "range": "A1:B3", "name": "Things"}),
    (
        "add_slicer",
        {
            "sheet": "Other",
            "target": {"sheet": "Other", "name": "Things"},
            "field": "thing",
            "at": "E1",
            "name": "ByThing",
        },
    ),
    ("delete_slicer", {"sheet": "Other", "name": "ByThing"}),
    (
        "create_pivot_table",
        {
            "sheet": "Pivot",
            "at": "A1",
            "source": "Data!A1:C3",
            "row_fields": ["item"],
            "value_fields": [{"field": "price"}],
            "name": "P1",
        },
    ),
    ("delete_pivot_table", {"sheet": "Pivot", "name": "P1"}),
    ("delete_chart", {"sheet": "Data", "name": "Chart 1"}),
    ("clear_range", {"sheet": "Data", "range": "A2:A3"}),
    ("insert_rows_or_columns", {"sheet": "Data", "axis": "rows", "start": 2, "count": 1}),
    ("delete_rows_or_columns", {"sheet": "Data", "axis": "rows", "start": 2, "count": 2}),
    ("create_sheet", {"new_name": "Fresh"}),
    ("copy_sheet", {"sheet": "Fresh", "new_name": "Copy"}),
    ("rename_sheet", {"sheet": "Copy", "new_name": "Renamed"}),
    ("import_csv", {"csv_path": "in.csv", "sheet": "Imported"}),
    ("delete_sheet", {"sheet": "Renamed"}),
]
"""One of each tool that changes a workbook, each possible after those before it."""


def dot() -> bytes:
    """The smallest image there is."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes(4))),
        (b"IEND", b""),
    ]
    written = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path)
    behind.add_excel()
    return behind


async def test_an_abort_brings_every_byte_of_a_workbook_back(behind: Behind) -> None:
    book = {"path": "plan.xlsx", "sheet": "Sheet1"}
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", path="plan.xlsx")
        await agent.do("excel_write_range", **book, at="A1", rows=[["item", "price"], ["tea", 2], ["total", "=B2*3"]])
        await agent.do("saga_commit")
        before = tree(behind.books)
        await agent.begin()
        await agent.do("excel_write_range", **book, at="B2", rows=[[5]])
        await agent.do("excel_delete_rows_or_columns", **book, axis="rows", start=2, count=1)
        await agent.do("excel_create_sheet", path="plan.xlsx", new_name="Second")
        await agent.do("excel_rename_sheet", **book, new_name="Other")
        await agent.do("excel_delete_sheet", path="plan.xlsx", sheet="Other")
        assert tree(behind.books) != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(behind.books) == before


async def test_every_tool_that_changes_a_workbook_is_undone(behind: Behind) -> None:
    book: dict[str, Any] = {"path": "plan.xlsx"}
    items = [["item", "count", "price"], ["tea", 1, 2], ["milk", 2, 3], ["tea", 1, 2], ["rice", 4, 1]]
    (behind.books / "dot.png").write_bytes(dot())
    (behind.books / "in.csv").write_text("a,b\n1,2\n")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", **book, sheets=["Data", "Other", "Pivot"])
        await agent.do("excel_write_range", **book, sheet="Data", at="A1", rows=items)
        await agent.do("excel_write_range", **book, sheet="Data", at="E1", rows=[[2], ["=E1*2"]])
        await agent.do("excel_write_range", **book, sheet="Other", at="A1", rows=[["thing", "n"], ["x", 1], ["y", 2]])
        await agent.do("excel_set_defined_name", **book, name="Old", refers_to="0.5")
        await agent.do("saga_commit")
        before = tree(behind.books)
        await agent.begin()
        for tool, arguments in CALLS:
            await agent.do(f"excel_{tool}", **book, **arguments)
        await agent.do("excel_import_workbook", path="plan.xlsx", content_base64=blank(behind), overwrite=True)
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(behind.books) == before
    undone = {tool for tool, table in load_preset("excel").tools.items() if table.get("kind") != "read_only"}
    assert undone - {tool for tool, _ in CALLS} == {"create_workbook", "import_workbook", "export_csv"}


def blank(behind: Behind) -> str:
    """A workbook as this server takes one."""
    return base64.b64encode((behind.books / "plan.xlsx").read_bytes()).decode()


async def test_a_new_workbook_is_left_and_said(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", path="new.xlsx")
        ended = await agent.abort()
    assert "1 residue" in ended["summary"], ended["summary"]
    assert list(tree(behind.books)) == ["new.xlsx"]


@pytest.mark.parametrize("name", ["plan.xlsx", "why it does not exist.xlsx"])
async def test_a_workbook_that_was_replaced_comes_back(behind: Behind, name: str) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", path=name, sheets=["Mine"])
        await agent.do("saga_commit")
        before = tree(behind.books)
        await agent.begin()
        await agent.do("excel_create_workbook", path=name, sheets=["Yours"], overwrite=True)
        assert tree(behind.books) != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(behind.books) == before


async def test_what_a_person_saved_since_is_not_overwritten(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", path="theirs.xlsx", sheets=["Theirs"])
        await agent.do("excel_create_workbook", path="plan.xlsx")
        await agent.do("saga_commit")
        await agent.begin()
        await agent.do("excel_write_range", path="plan.xlsx", sheet="Sheet1", at="A1", rows=[[1]])
        theirs = (behind.books / "theirs.xlsx").read_bytes()
        (behind.books / "plan.xlsx").write_bytes(theirs)
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert (behind.books / "plan.xlsx").read_bytes() == theirs
