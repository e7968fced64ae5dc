"""Somebody deletes the files beside the database of a living server, as a clean-up of "temporary" files does.

Nothing more is sent that could not be undone, no reply calls an outcome stored, and what was stored is undone after a
restart.
"""

from __future__ import annotations

import pytest
from tests.e2e.product import Product
from tests.world.server import eventually

WAL, SHM = "saga.db-wal", "saga.db-shm"
LOST = pytest.mark.parametrize("lost", [(WAL,), (SHM,), (WAL, SHM)], ids=["wal", "shm", "both"])


def lose(product: Product, *names: str) -> None:
    for name in names:
        product.database.with_name(name).unlink()


@pytest.mark.slow
@LOST
async def test_nothing_more_is_sent_and_a_restart_undoes_what_was(product: Product, lost: tuple[str, ...]) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        lose(product, *lost)
        for tool, arguments in (("reserve", {"item": "b"}), ("saga_commit", {}), ("saga_abort", {})):
            reply = await agent.call(tool, saga_id=saga_id, **arguments)
            assert (reply.is_error, reply.code) == (True, "log_unavailable"), tool
            assert "start again" in reply.text
        assert len(product.world.sent()) == 1
        await agent.close_stdin()
        await agent.exits(10)
    async with product.serve() as agent:
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.order == ["reserve(a)", "release(a)"]


@pytest.mark.slow
@LOST
async def test_an_effect_whose_outcome_cannot_be_stored_any_more_is_not_called_done(
    product: Product, lost: tuple[str, ...]
) -> None:
    product.configure("reply_within_s = 1.0")
    async with product.serve() as agent:
        saga_id = await agent.begin()
        step = await agent.ask("reserve", item="a", mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("reserve")) == 1)
        lose(product, *lost)
        product.world.go()
        reply = await agent.reply_to(step)
        assert reply.is_error
        assert reply.code in {"still_running", "outcome_unknown"}
        await agent.close_stdin()
        await agent.exits(30)
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    assert product.world.order == ["reserve(a)", "release(a)"]
