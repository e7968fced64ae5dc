"""What docs/postgresql.md tells its reader to do works as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.e2e.product import LEDGER, Product
from tests.postgres.server import PostgresServer, sql

PAGE = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
async def test_a_user_and_a_database_as_the_page_makes_them_are_enough(
    tmp_path: Path, own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user is no superuser; the names are the page's, the host is ours."""
    (made,) = blocks("sql")
    for statement in made.replace("ROLE saga", "ROLE team").replace("OWNER saga", "OWNER team").split(";"):
        if statement.strip():
            own_server.sql(statement)
    (toml,) = blocks("toml")
    monkeypatch.setenv("SAGA_DB_PASSWORD", "change me")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    product = Product(tmp_path)
    ours = toml.replace("//saga:", "//team:").replace("db.lan:5432", f"127.0.0.1:{own_server.port}")
    ours = ours.replace("?sslmode=verify-full", "")
    product.config.write_text(f"{ours}\n[python.ledger]\npath = '{LEDGER}:registry'\n", encoding="utf-8")
    async with product.serve() as agent:
        saga_id = (await agent.call("reserve", item="a")).saga_id
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.order == ["reserve(a)", "release(a)"]
    assert sql(own_server.url("saga"), "SELECT tableowner FROM pg_tables WHERE tablename = 'saga'") == "team"
