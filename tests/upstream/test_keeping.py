"""How an upstream is kept: what each request carries, what it says by the way, when it is stopped and started again."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import pytest
import structlog
from tests.upstream.desk import PAIRED, Desk, eventually
from tests.upstream.test_door import DOOR
from tests.upstream.test_http import BLIND, ledger, point


async def test_each_request_over_http_carries_the_headers_of_the_config(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM", "blue")
    async with ledger(desk, program=DOOR) as port:
        point(desk, port)
        config = desk.config.read_text(encoding="utf-8")
        headed = config.replace('/mcp"\n', '/mcp"\nheaders = { X-Team = "${env:TEAM}" }\n', 1)
        desk.config.write_text(headed, encoding="utf-8")
        async with desk.open() as agent:
            await agent.until_up()
            await agent.call("ledger_add", item="a", id=7)
    asked = [(line["method"], line["team"]) for line in desk.lines if line["do"] == "asked"]
    assert {"initialize", "tools/list", "tools/call"} <= {method for method, _ in asked}
    assert {team for _, team in asked} == {"blue"}


async def test_what_an_upstream_says_on_stderr_is_in_our_log_under_its_name(desk: Desk) -> None:
    with structlog.testing.capture_logs() as logged:
        async with desk.open() as agent:
            await agent.until_up()
    said = [(line["upstream"], line["line"]) for line in logged if line["event"] == "upstream_stderr"]
    assert said == [("ledger", "the ledger has started")]


async def test_a_read_that_nobody_waits_for_is_stopped(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        desk.switch("held")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.call, "ledger_look")
            await eventually(lambda: desk.called("look") > 1)
            tasks.cancel_scope.cancel()
        await eventually(lambda: any(line["do"] == "stopped" for line in desk.lines))


async def test_a_call_that_may_have_its_effect_is_never_stopped(desk: Desk) -> None:
    """Its client has gone, and its hard deadline is over: who is told to stop half-way does half of it."""
    desk.configure(BLIND.replace("hard_deadline_s = 3", "hard_deadline_s = 1"))
    async with desk.open() as agent:
        await agent.until_up()
        saga_id = await agent.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: agent.call("ledger_add", item="a", id=7, mode="hang_stoppably", saga_id=saga_id))
            await eventually(lambda: desk.called("add") == 1)
            tasks.cancel_scope.cancel()
        await agent.until(saga_id, "needs_attention")
        desk.switch("go")
        await eventually(lambda: desk.did == ["add a"])


@dataclass
class Noting:
    """Back-offs that take no time."""

    failures: list[int] = field(default_factory=list[int])

    def delay_s(self, attempts_made: int) -> float:
        self.failures.append(attempts_made)
        return 0.0


async def test_an_upstream_that_does_not_come_up_is_started_less_and_less_often(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    noting = Noting()
    monkeypatch.setattr("saga_mcp.tools.upstream.connection._AGAIN", noting)
    desk.configure(PAIRED)
    desk.switch("down")
    async with desk.open():
        await eventually(lambda: len(noting.failures) > 2)
    assert noting.failures[:3] == [1, 2, 3]
    assert len(desk.pids) >= 3
