"""A process that stands still, and one that others take for dead, beside a second one on the same database.

SIGSTOP is what a debugger, a laptop's lid or a container's pause does: the lock is still held, so the process lives
(SEMANTICS.md S3.5). A removed lock file is what a tidy administrator does: then its work is everybody's.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest
from tests.e2e.product import BOUND_S, Client, Product
from tests.world.server import eventually

HASTY = {"LEDGER_TIMEOUT_S": "0.2", "LEDGER_SETTLE_S": "0.1"}
PATIENCE_S = 4.5
"""More than the hard deadline of ten time limits, the probes' time and the time for a reply, together."""

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no such signal here")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["hang_before", "hang_after"])
async def test_nothing_is_undone_while_the_owner_stands_still_and_then_its_answer_counts(
    product: Product, mode: str
) -> None:
    product.configure("reply_within_s = 1.0")
    async with product.serve(env=HASTY) as one, product.serve(env=HASTY) as two:
        saga_id = await one.begin()
        await one.call("reserve", item="a", saga_id=saga_id)
        await one.ask("hold", item="b", mode=mode, saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("hold")) == 1)
        _send(one, signal.SIGSTOP)
        aborted = await two.call("saga_abort", saga_id=saga_id)
        assert aborted.state == "compensating"
        await anyio.sleep(PATIENCE_S)  # nothing is to happen, and there is no event for that
        status = await two.status(saga_id)
        assert (status["state"], status["steps"][1]["running"]) == ("compensating", True)
        assert product.world.sent("release") == product.world.sent("unhold") == []
        product.world.go()
        _send(one, signal.SIGCONT)
        status = await two.until(saga_id, "compensated")
        assert [step["state"] for step in status["steps"]] == ["compensated", "compensated"]
    assert product.world.order == ["reserve(a)", "hold(b)", "unhold(b)", "release(a)"]
    assert {line.undo_key != "" for line in product.world.sent("unhold")} == {True}
    assert len(product.world.sent("unhold")) == 1


@pytest.mark.slow
async def test_people_are_told_of_an_owner_that_stands_still_and_what_to_do(product: Product) -> None:
    product.configure("reply_within_s = 1.0")
    async with product.serve(env=HASTY) as one, product.serve(env=HASTY) as two:
        saga_id = await one.begin()
        await one.ask("hold", item="b", mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("hold")) == 1)
        _send(one, signal.SIGSTOP)
        await two.call("saga_abort", saga_id=saga_id)
        told = f"pid {one.raw.process.pid} holds its lock and says nothing"
        with anyio.fail_after(BOUND_S * 2):
            while told not in (said := (await product.run("show", saga_id))[1]):  # noqa: ASYNC110 - another process
                await anyio.sleep(0.2)
        assert f"kill -9 {one.raw.process.pid}" in said
        assert "counts as running until" not in said
        for command in ("attention", "doctor"):
            _, said = await product.run(command)
            assert f"{saga_id}  step 1: " in said
            assert told in said
        status = await two.status(saga_id)
        assert (status["state"], product.world.sent("unhold")) == ("compensating", [])
        assert status["steps"][0]["overdue"]
        assert "step 1 does not answer" in status["next"][0]
        one.kill()
        await two.until(saga_id, "compensated")
    assert product.world.did("hold") == []


@pytest.mark.slow
async def test_a_step_whose_owner_stood_still_can_be_kept(product: Product) -> None:
    product.configure('on_error = "hold"\nreply_within_s = 1.0')
    async with product.serve(env=HASTY) as one, product.serve(env=HASTY) as two:
        saga_id = await one.begin()
        await one.ask("charge", cents=5, mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("charge")) == 1)
        _send(one, signal.SIGSTOP)
        refused = await two.call("saga_commit", saga_id=saga_id)
        assert (refused.is_error, refused.code) == (True, "commit_refused")
        await anyio.sleep(PATIENCE_S)  # see above
        assert product.world.sent("find_charge") == []
        product.world.go()
        _send(one, signal.SIGCONT)
        await two.at_rest(saga_id)
        assert (await two.call("saga_commit", saga_id=saga_id)).state == "committed"
    assert product.world.order == ["charge(5)"]


@pytest.mark.slow
async def test_a_process_whose_lock_was_removed_ends_its_chain_of_undos_and_sends_nothing_more(
    product: Product,
) -> None:
    """docs/decisions.md 29."""
    product.world.plan(release=["ok", "hang_before", "ok"])
    async with product.serve() as one:
        saga_id = await one.begin()
        for item in "abcd":
            await one.call("reserve", item=item, saga_id=saga_id)
        await one.ask("saga_abort", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("release")) == 2)
        for lock in _locks(product):
            lock.unlink()
        async with product.serve() as two:
            # It takes the first one for dead, and sends what that one had begun again, under the same key.
            await two.until(saga_id, "compensated")
            product.world.go()
            await eventually(lambda: len(product.world.did("release")) == 5)
            refused = await one.call("reserve", item="e")
            assert (refused.is_error, refused.code) == (True, "log_unavailable")
            assert "Restart the server" in refused.text
            assert (await two.at_rest(saga_id))["state"] == "compensated"
    first, *others = dict.fromkeys(line.pid for line in product.world.sent("release"))
    assert [line.args["item"] for line in product.world.sent("release") if line.pid == first] == ["d", "c"]
    assert len(others) == 1
    assert [line.args["item"] for line in product.world.sent("release") if line.pid != first] == ["c", "b", "a"]
    assert all(len(keys) == 1 for keys in product.world.undo_keys.values())


def _send(agent: Client, number: signal.Signals) -> None:
    os.kill(agent.raw.process.pid, number)


def _locks(product: Product) -> list[Path]:
    return list(product.database.with_name(f"{product.database.name}.owners").glob("*.lock"))
