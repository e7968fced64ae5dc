"""The commands, with the saga log in PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.product import Product
from tests.postgres.pooler import pooled
from tests.postgres.server import PostgresServer, fresh, sql

from saga_mcp.log.place import ServerPlace


async def told(product: Product, *arguments: str, code: int = 0) -> str:
    exit_code, output = await product.run(*arguments)
    assert exit_code == code, output
    assert "no-secret" not in output  # the password in the URL
    assert "Traceback" not in output
    return output


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_every_command_that_looks_or_acts_works(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        kept = (await agent.call("hold", item="b")).saga_id
        await agent.call("saga_commit", saga_id=kept)
        agent_pid = agent.raw.process.pid
        assert f"pid {agent_pid}" in await told(product)
        assert saga_id in await told(product, "list", "--open")
        assert "reserve" in await told(product, "show", saga_id, "--timeline", "--values")
        assert "0 items" in await told(product, "attention")
        page = await told(product, "doctor", code=1)
        assert "ok     log        postgresql://127.0.0.1:" in page
        assert f"ok     server     pid {agent_pid}" in page
        assert "error  log        the server runs with fsync = off" in page  # which the tests do
        assert "2 errors" in page
        assert '"type": "SagaOpened"' in await told(product, "export", saga_id)
        assert "all as they were written" in await told(product, "verify")
        assert "paused" in await told(product, "pause", "--tool", "ledger.hold", "--note", "n", "--yes")
        assert (await agent.call("hold", item="c", saga_id=saga_id)).code == "tool_paused"
        await told(product, "resume", "--tool", "ledger.hold", "--yes")
        assert f"(pid {agent_pid}) goes on with it" in await told(product, "abort", saga_id, "--note", "n", "--yes")
        await agent.until(saga_id, "compensated")  # it was told at once
    assert product.world.order == ["reserve(a)", "hold(b)", "release(a)"]
    assert "at rest now" in await told(product, "recover", "--yes")
    assert "1 saga removed" in await told(product, "prune", "--older-than", "0s", "--yes")
    assert sql(product.url, "SELECT count(*) FROM saga") == "1"  # what was committed can be reverted for a while
    looks = [*product.folder.glob("data/saga-mcp/*-looks.jsonl")]
    assert [json.loads(line)["saga"] for line in looks[0].read_text().splitlines()] == [saga_id]


@pytest.mark.slow
async def test_a_server_that_is_down_is_named_by_every_command(product: Product, postgres: PostgresServer) -> None:
    gone = product.url.replace(f":{postgres.port}/", ":1/")
    product.url = gone
    product.configure()
    assert "does not answer" in await told(product, "list", code=1)
    page = await told(product, "doctor", code=1)
    assert "error  log        the server of the saga log postgresql://127.0.0.1:1/" in page
    assert "-> Start it, or mend the way to it" in page


@pytest.mark.slow
async def test_a_user_who_may_not_write_is_told_so(product: Product, server_place: ServerPlace) -> None:
    sql(server_place.url, "DROP ROLE IF EXISTS reader")
    sql(server_place.url, "CREATE ROLE reader LOGIN")
    product.url = product.url.replace("saga:no-secret@", "reader:no-secret@")
    product.configure()
    async with product.serve() as agent:
        reply = await agent.call("reserve", item="a")
        assert reply.code == "log_unavailable"
        assert "refuses this user" in reply.text
    assert product.world.order == []


@pytest.mark.slow
async def test_a_pooler_of_single_transactions_is_refused_with_the_next_move(
    product: Product, postgres: PostgresServer
) -> None:
    async with pooled(postgres.port) as port:
        product.url = product.url.replace(f":{postgres.port}/", f":{port}/")
        product.configure()
        async with product.serve() as agent:
            reply = await agent.call("reserve", item="a")
            assert reply.code == "log_unavailable"
            assert "a pool in session mode" in reply.text
        page = await told(product, "doctor", code=1)
        assert "pooler that lends connections for single transactions" in page
    assert product.world.order == []


@pytest.mark.slow
async def test_no_command_makes_a_log_where_it_cannot_be_told_whether_there_is_one(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with fresh(postgres, empty=True) as name:
        async with pooled(postgres.port) as port:
            product = Product(tmp_path, url=postgres.url(name).replace(f":{postgres.port}/", f":{port}/"))
            for command in (
                (),
                ("list",),
                ("attention",),
                ("prune", "--older-than", "1d", "--yes"),
                ("recover", "--yes"),
            ):
                assert "pooler that lends connections for single" in await told(product, *command, code=1), command
        assert sql(postgres.url(name), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"


@pytest.mark.slow
async def test_an_empty_database_is_said_to_have_no_log_yet(tmp_path: Path, postgres: PostgresServer) -> None:
    with fresh(postgres, empty=True) as name:
        product = Product(tmp_path, url=postgres.url(name))
        assert "has no saga log yet" in await told(product, "doctor", code=1)
        assert "There is no saga log at postgresql://127.0.0.1" in await told(product, "list", code=1)
        assert "(not there yet)" in await told(product)
        assert sql(postgres.url(name), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"
