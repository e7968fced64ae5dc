"""The preset of the Word server, over the server itself: what was added at the end goes, all other edits are left."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.servers.behind import Behind
from tests.servers.test_deaths import lose

from saga_mcp.tools.presets import load_preset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path, deadly=True)
    behind.add_word()
    return behind


def content(document: Path) -> bytes:
    with ZipFile(document) as zipped:
        return zipped.read("word/document.xml")


async def written(behind: Behind) -> Path:
    """A document with a table and a paragraph, kept."""
    document = behind.folder / "plan.docx"
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("word_create_document", filename=str(document))
        await agent.do("word_add_paragraph", filename=str(document), text="first")
        await agent.do("word_add_table", filename=str(document), rows=1, cols=2, data=[["a", "b"]])
        await agent.do("saga_commit")
    return document


async def test_what_was_added_at_the_end_is_taken_away(behind: Behind) -> None:
    document = await written(behind)
    before = content(document)
    where = {"filename": str(document.with_suffix(""))}
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("word_add_heading", **where, text="Second", level=1)
        await agent.do("word_add_paragraph", **where, text="second", bold=True)
        await agent.do("word_add_page_break", **where)
        assert content(document) != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert content(document) == before


async def test_a_document_that_was_protected_is_opened_again(behind: Behind) -> None:
    document = await written(behind)
    before = content(document)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("word_protect_document", filename=str(document), password="secret")  # noqa: S106 - of a test
        assert not document.read_bytes().startswith(b"PK")
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert content(document) == before


async def test_what_a_person_wrote_since_is_not_taken_away(behind: Behind) -> None:
    document = await written(behind)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("word_add_paragraph", filename=str(document), text="the agent's")
        saga = agent.saga
        await agent.begin()
        await agent.do("word_search_and_replace", filename=str(document), find_text="first", replace_text="1st")
        await agent.do("saga_commit")
        agent.saga = saga
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert b"1st" in content(document)


async def test_another_edit_is_left_and_said(behind: Behind) -> None:
    document = await written(behind)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("word_search_and_replace", filename=str(document), find_text="first", replace_text="1st")
        ended = await agent.abort()
    assert "1 residue" in ended["summary"], ended["summary"]
    assert b"1st" in content(document)


async def test_a_document_that_is_there_is_not_overwritten(behind: Behind) -> None:
    document = await written(behind)
    before = document.read_bytes()
    async with behind.serve() as agent:
        await agent.begin()
        reply = await agent.try_to("word_create_document", filename=str(document))
    assert reply.meta["saga"]["code"] == "capture_failed"
    assert document.read_bytes() == before


@pytest.mark.parametrize("destination", ["copy.docx", "copy", None])
async def test_a_document_that_is_there_is_not_copied_over(behind: Behind, destination: str | None) -> None:
    document = await written(behind)
    there = behind.folder / ("copy.docx" if destination else "plan_copy.docx")
    there.write_bytes(document.read_bytes() + b"a person's")
    before = there.read_bytes()
    where = {"destination_filename": str(behind.folder / destination)} if destination else {}
    async with behind.serve() as agent:
        await agent.begin()
        reply = await agent.try_to("word_copy_document", source_filename=str(document), **where)
        assert reply.meta["saga"]["code"] == "capture_failed"
        assert there.read_bytes() == before
        there.unlink()
        await agent.do("word_copy_document", source_filename=str(document), **where)
        ended = await agent.abort()
    assert "1 residue" in ended["summary"], ended["summary"]
    assert there.read_bytes() == document.read_bytes()


async def test_what_the_server_calls_a_success_and_was_none_is_a_failure(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.try_to("word_search_and_replace", filename="no.docx", find_text="a", replace_text="b")
        status = await agent.do("saga_status")
    assert [step["state"] for step in status["steps"]] == ["failed"]


async def test_a_server_that_never_saw_the_call_has_added_nothing(behind: Behind) -> None:
    document = await written(behind)
    before = content(document)
    async with behind.serve() as agent:
        arguments = {"filename": str(document), "text": "second"}
        ended = await lose(agent, behind, "before", "word_add_paragraph", arguments)
    assert (ended["state"], ended["steps"][0]["state"]) == ("compensated", "failed"), ended
    assert content(document) == before


async def test_the_check_finds_every_tool_and_nothing_wrong(behind: Behind) -> None:
    async with behind.serve() as agent:
        offered = {tool.name for tool in (await agent.client.list_tools()).tools}
    checked = behind.run("check")
    assert (checked["errors"], checked["warnings"]) == ([], [])
    preset = load_preset("word")
    assert {f"word_{name}" for name in (*preset.tools, *preset.read_only)} <= offered
