"""A log that a newer version wrote to, or that was damaged: what is not understood is not sent (SEMANTICS.md S6.1)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.world.reading import World
from tests.world.server import served

from saga_mcp.domain.person_decisions import retry
from saga_mcp.domain.values import ItemKind, Phase

WHO = {"by": "ada", "note": "upgraded"}


def _rewrite(database: Path, **more: str) -> None:
    """Store more, or again only the usual, in every frozen pair."""
    with closing(sqlite3.connect(database)) as connection, connection:
        rows = connection.execute("SELECT hash, content FROM saga_pair").fetchall()
        for name, stored in rows:
            content = {key: value for key, value in json.loads(stored).items() if key != "snapshot"} | more
            connection.execute("UPDATE saga_pair SET content = ? WHERE hash = ?", (json.dumps(content), name))


async def test_an_undo_whose_pair_cannot_be_read_is_not_sent_and_waits_for_a_person(
    world: World, database: Path
) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
    _rewrite(database, snapshot="first")
    async with served(database) as server:
        assert (await server.abort(reply.saga_id)).phase is Phase.COMPENSATING
        (item,) = await server.items(reply.saga_id)
        assert item.kind is ItemKind.DEAD_LETTER
        assert "was changed in the saga log: nothing is sent." in item.message
        assert world.standing == ["reserve(a)"]
        assert world.sent("release") == []
    _rewrite(database)
    async with served(database) as server:
        await server.engine.decide_item(reply.saga_id, lambda now, d: retry(now, 1, driving=d, **WHO))
        assert (await server.rest(reply.saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []
