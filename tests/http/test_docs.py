"""docs/http.md and `saga-mcp token`, taken at their word."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import anyio
import pytest
from tests.e2e.product import BOUND_S, COMMAND, Product
from tests.http.serving import agent, serving

from saga_mcp.app import load
from saga_mcp.edge.http.tokens import hash_of

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
BLOCKS = [re.sub(r"^ {3}", "", text, flags=re.MULTILINE) for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_each_config_that_the_page_shows_is_right(product: Product, text: str) -> None:
    product.configure(tools=text)
    loaded = load(product.config, environ=product.world.env)
    assert loaded.warnings == ()
    assert loaded.shared.http.public_url == "https://saga.example.com/mcp"
    assert loaded.shared.people.told_apart


def test_the_entries_for_clients_are_json() -> None:
    entries = [json.loads(cell) for cell in re.findall(r"`(\{.*?\})` \|", PAGE)]
    assert len(entries) == 2
    for entry in entries:
        [[server]] = [tuple(servers.values()) for servers in entry.values()]
        assert server["headers"] == {"Authorization": "Bearer TOKEN"}


@pytest.mark.slow
async def test_the_line_that_token_prints_lets_its_token_in(product: Product) -> None:
    said = await made("Ada L.")
    token = next(line.strip() for line in said.splitlines() if line.startswith("  sgt_"))
    line = next(line for line in said.splitlines() if "sha256:" in line)
    assert tomllib.loads(line) == {"Ada L.": f"sha256:{hash_of(token)}"}
    product.configure(tools=f"[auth.tokens]\n{line}")
    async with serving(product) as server, agent(server.url, token) as ada:
        await ada.call("reserve", item="a")
    assert product.world.order == ["reserve(a)"]


@pytest.mark.slow
async def test_two_tokens_are_never_the_same() -> None:
    tokens = {json.loads(await made("a", "--json"))["token"] for _ in range(2)}
    assert len(tokens) == 2
    assert all(len(each) > 40 for each in tokens)


async def made(*arguments: str) -> str:
    """What `saga-mcp token` prints."""
    with anyio.fail_after(BOUND_S):
        return (await anyio.run_process([*COMMAND, "token", *arguments])).stdout.decode()
