"""The protocol's own conformance suite, for both eras: what it finds is what we know and say why.

The suite speaks HTTP only, and what answers is `saga-mcp serve --http`. Each expected failure stands with its reason in
`conformance/<revision>.yaml`; one that no longer fails has to leave that file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import anyio
import pytest
from tests.clients.installed import HERE, NODE, node_modules, with_node
from tests.clients.kinds import HANDSHAKE, MODERN
from tests.clients.over_http import served_over_http
from tests.e2e.product import Product

BOUND_S = 300


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("revision", "at_least"), [(HANDSHAKE, 48), (MODERN, 111)])
async def test_the_conformance_suite_finds_what_we_know(
    product: Product, tmp_path: Path, revision: str, at_least: int
) -> None:
    suite = node_modules() / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    expected = HERE / "conformance" / f"{revision}.yaml"
    async with served_over_http(product, "conformance_server") as url:
        options = ["--suite", "all", "--spec-version", revision, "--expected-failures", str(expected)]
        with anyio.fail_after(BOUND_S):
            ran = await anyio.run_process(
                [str(NODE), str(suite), "server", "--url", url, *options, "--output-dir", str(tmp_path / "results")],
                check=False,
                env=with_node({**os.environ}),
            )
    assert ran.returncode == 0, ran.stdout.decode()[-5000:]
    assert passed(tmp_path / "results") >= at_least


def passed(results: Path) -> int:
    """How many checks succeeded: an empty run would have no failures either."""
    checks = [check for file in results.glob("*/checks.json") for check in json.loads(file.read_text())]
    return Counter(check["status"] for check in checks)["SUCCESS"]
