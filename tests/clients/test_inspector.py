"""The Inspector's command line: every call is a client and a server process of its own, and the saga goes on."""

from __future__ import annotations

import json
import os
from typing import Any

import anyio
import pytest
from tests.clients.installed import NODE, node_modules, with_node
from tests.clients.remote import BOUND_S, Result
from tests.e2e.product import COMMAND, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.parametrize("era", ["legacy", "modern"])]
TOOL_ERROR = 5
"""The Inspector's exit code for a result that is an error."""


async def inspect(product: Product, era: str, method: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, result, and what was said on stderr."""
    inspector = node_modules() / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher"
    entry = {"command": COMMAND[0], "args": [*COMMAND[1:], "serve", "--config", str(product.config)]}
    servers = product.folder / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"saga": {**entry, "env": product.world.env}}}), encoding="utf-8")
    command = [str(NODE), str(inspector / "build" / "index.js"), "--cli", "--config", str(servers), "--server", "saga"]
    with anyio.fail_after(BOUND_S):
        ran = await anyio.run_process(
            [*command, "--protocol-era", era, "--format", "json", "--method", method, *options],
            check=False,
            env=with_node({**os.environ, "HOME": str(product.folder)}),
        )
    assert ran.stdout, ran.stderr.decode()
    return ran.returncode, json.loads(ran.stdout), ran.stderr.decode()


async def call(product: Product, era: str, name: str, **arguments: object) -> tuple[int, Result]:
    options = ("--tool-name", name, "--tool-args-json", json.dumps(arguments))
    code, value, _ = await inspect(product, era, "tools/call", *options)
    return code, Result(value.get("result", value))


async def test_its_portability_check_finds_no_fault_with_our_schemas(product: Product, era: str) -> None:
    code, listed, said = await inspect(product, era, "tools/list", "--strict")
    assert code == 0, said
    assert "saga_begin" in str(listed)
    assert "0 errors" in said


async def test_a_saga_goes_on_over_many_processes_until_it_is_committed(product: Product, era: str) -> None:
    code, opened = await call(product, era, "reserve", item="a")
    assert code == 0
    saga_id = opened.facts["id"]
    await call(product, era, "charge", cents=5, saga_id=saga_id)
    code, committed = await call(product, era, "saga_commit", saga_id=saga_id)
    assert code == 0
    assert committed.facts["state"] == "committed"
    code, refused = await call(product, era, "reserve", item="b", saga_id=saga_id)
    assert code == TOOL_ERROR
    assert refused.facts["code"] == "saga_closed"
    assert product.world.standing == ["reserve(a)", "charge(5)"]


async def test_one_process_undoes_what_others_did(product: Product, era: str) -> None:
    _, opened = await call(product, era, "reserve", item="a")
    saga_id = opened.facts["id"]
    await call(product, era, "charge", cents=5, saga_id=saga_id)
    code, failed = await call(product, era, "reserve", item="b", mode="err_before", saga_id=saga_id)
    assert code == TOOL_ERROR
    assert failed.facts["state"] == "compensated"
    assert product.world.order == ["reserve(a)", "charge(5)", "refund(5)", "release(a)"]


async def test_an_unknown_argument_is_refused(product: Product, era: str) -> None:
    code, refused = await call(product, era, "reserve", item="a", colour="red")
    assert code == TOOL_ERROR
    assert refused.facts["code"] == "invalid_arguments"
    assert product.world.sent() == []
