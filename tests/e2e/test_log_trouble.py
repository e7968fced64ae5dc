"""The saga log is in other hands for a while (DESIGN.md rule 1; CASES C45)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.e2e.product import Product
from tests.world.server import eventually


@contextlib.contextmanager
def write_lock(database: Path) -> Generator[None]:
    """Hold the database's write lock, as some other program might."""
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.case(45)
@pytest.mark.slow
async def test_while_the_log_is_locked_nothing_is_sent_and_reads_go_on(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        with write_lock(product.folder / "saga.db"):
            refused = await agent.ask("reserve", item="a", saga_id=saga_id)
            assert (await agent.status(saga_id))["state"] == "active"
            reply = await agent.reply_to(refused, within_s=15)
            assert (reply.is_error, reply.code) == (True, "log_unavailable")
            assert "locked" in reply.text
            assert product.world.sent() == []
        assert not (await agent.call("reserve", item="b", saga_id=saga_id)).is_error
        assert (await agent.call("saga_commit", saga_id=saga_id)).state == "committed"
    assert product.world.standing == ["reserve(b)"]


@pytest.mark.slow
async def test_an_effect_that_happens_while_the_log_is_locked_is_not_lost(product: Product) -> None:
    """Longer than the log waits for the lock: the outcome is in the server's hands until it can be stored."""
    product.configure("reply_within_s = 13.0")
    async with product.serve() as agent:
        saga_id = await agent.begin()
        step = await agent.ask("reserve", item="a", mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("reserve")) == 1)
        with write_lock(product.folder / "saga.db"):
            product.world.go()
            reply = await agent.reply_to(step)
            assert (reply.is_error, reply.code) == (True, "still_running")
        await agent.at_rest(saga_id)
        assert (await agent.call("saga_commit", saga_id=saga_id)).state == "committed"
    assert product.world.standing == ["reserve(a)"]
