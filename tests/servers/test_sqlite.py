"""The preset of the SQLite server, over the server itself: nearly everything is a point of no return, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.behind import Behind

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path)
    behind.add_sqlite()
    return behind


async def test_an_empty_new_table_is_dropped_again(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("db_create_table", query="CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
        assert behind.sql(TABLES) == [("notes",)]
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert behind.sql(TABLES) == []


async def test_an_insight_stays_and_is_said_to(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("db_append_insight", insight="people like tea")
        ended = await agent.abort()
    assert "1 residue" in ended["summary"], ended["summary"]


async def test_a_table_with_rows_is_not_dropped(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("db_create_table", query="create table notes (id INTEGER)")
        behind.write("INSERT INTO notes VALUES (1)")
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert behind.sql("SELECT * FROM notes") == [(1,)]


async def test_an_error_that_the_server_calls_a_success_fails_the_step(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("db_create_table", query="CREATE TABLE notes (id INTEGER)")
        reply = await agent.try_to("db_create_table", query="CREATE TABLE notes (id INTEGER)")
    assert not reply.is_error
    assert (reply.meta["saga"]["code"], reply.meta["saga"]["state"]) == ("step_failed", "compensated")
    assert behind.sql(TABLES) == []


async def test_a_statement_is_a_point_of_no_return(behind: Behind) -> None:
    behind.write("CREATE TABLE notes (id INTEGER)")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("db_write_query", query="INSERT INTO notes VALUES (1)")
        reply = await agent.try_to("saga_abort")
        assert reply.meta["saga"]["code"] == "pivot_passed"
        await agent.do("saga_commit")
    assert behind.sql("SELECT * FROM notes") == [(1,)]
