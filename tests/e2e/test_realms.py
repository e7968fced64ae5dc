"""Two projects on one database, as their agents see it (SEMANTICS.md S1.1)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.e2e.product import Product


def sharing(product: Product, folder: Path) -> Product:
    """Another project, with another realm and another world, whose log is in the first one's database."""
    folder.mkdir()
    other = Product(folder)
    text = other.config.read_text(encoding="utf-8")
    text = text.replace('"ledger"', '"bank"', 1).replace("saga.db", str(product.folder / "saga.db"))
    other.config.write_text(text, encoding="utf-8")
    return other


async def test_an_agent_of_another_project_has_no_such_saga(product: Product, tmp_path: Path) -> None:
    async with product.serve() as mine, sharing(product, tmp_path / "bank").serve() as theirs:
        saga_id = (await mine.call("reserve", item="a")).saga_id
        other_id = (await theirs.call("reserve", item="b")).saga_id
        for tool, arguments in (
            ("saga_status", {}),
            ("saga_commit", {}),
            ("saga_abort", {}),
            ("saga_savepoint", {"name": "here"}),
            ("reserve", {"item": "c"}),
        ):
            refused = await theirs.call(tool, saga_id=saga_id, **arguments)
            assert (refused.is_error, refused.code) == (True, "saga_not_found"), tool
        for client, own in ((mine, saga_id), (theirs, other_id)):
            listed = (await client.call("saga_status")).structured["sagas"]
            assert [row["saga_id"] for row in listed] == [own]
        assert (await mine.status(saga_id))["state"] == "active"
    assert product.world.order == ["reserve(a)"]


@pytest.mark.slow
async def test_work_of_a_killed_server_waits_for_one_of_its_own_realm(product: Product, tmp_path: Path) -> None:
    other = sharing(product, tmp_path / "bank")
    async with other.serve() as bystander:
        async with product.serve() as mine:
            saga_id = await mine.begin()
            await mine.call("reserve", saga_id=saga_id, item="a")
            await mine.ask("reserve", saga_id=saga_id, item="b", mode="hang_after")
            with anyio.fail_after(10):
                while len(product.world.did("reserve")) < 2:  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.01)
            mine.kill()
        # Enough for several scans of a server that would take it over.
        for _ in range(3):
            await bystander.call("reserve", item="c")
            await anyio.sleep(0.7)
        assert product.world.order == ["reserve(a)", "reserve(b)"]
        async with product.serve() as successor:
            await successor.until(saga_id, "compensated")
    assert product.world.standing == []
    assert len(other.world.standing) == 3
