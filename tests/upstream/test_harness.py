"""`saga_mcp.testing` over a config with an upstream: only Python tools can be made to fail there."""

from __future__ import annotations

import pytest
from tests.upstream.desk import Desk

from saga_mcp.testing import CallFailed, Harness


async def test_python_tools_fail_and_upstreams_tools_cannot_be_made_to(desk: Desk) -> None:
    async with Harness(desk.config) as h:
        with pytest.raises(ValueError, match="tool of an upstream"):
            h.fail("ledger_add", when="before")
        with pytest.raises(ValueError, match="tool of an upstream"):
            h.fail_undo("ledger_add", times=1)
        h.fail("note", when="before")
        with pytest.raises(CallFailed):
            await h.saga().call("note", text="a")
    assert desk.notes == ["unnote a"]  # the error proves nothing
