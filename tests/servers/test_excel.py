"""The preset of the Excel server, over the server itself: a workbook comes back byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.behind import Behind, tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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


async def test_a_new_workbook_is_left_and_said(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", path="new.xlsx")
        ended = await agent.abort()
    assert "1 residue" in ended["summary"], ended["summary"]
    assert list(tree(behind.books)) == ["new.xlsx"]


async def test_a_workbook_that_was_replaced_comes_back(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", path="plan.xlsx", sheets=["Mine"])
        await agent.do("saga_commit")
        before = tree(behind.books)
        await agent.begin()
        await agent.do("excel_create_workbook", path="plan.xlsx", sheets=["Yours"], overwrite=True)
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
