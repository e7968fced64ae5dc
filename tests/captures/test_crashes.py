"""A process that captures and guards dies around every durable write, and the files end as they were (S6.6, S6.7)."""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path

import anyio
import pytest
from tests.captures.files import Files
from tests.world.failing import DoubtfulLog, DyingLog, Fault
from tests.world.server import Server, served, settles_at_once

from saga_mcp.domain.errors import LogUnavailable, Refused
from saga_mcp.domain.person_decisions import overwrite
from saga_mcp.domain.values import ItemKind
from saga_mcp.log.port import SagaLog

BEFORE = {"a": bytes(range(256)), "b": None, "c": b"untouched"}


async def scenario(server: Server, saga_id: str) -> None:
    for name, text in (("a", "one"), ("b", "new"), ("a", "two")):
        await server.call("write", saga_id, name=name, text=text)
    await server.abort(saga_id)
    await server.rest(saga_id)


async def run_until_death(files: Files, database: Path, *, at: int, stored: bool) -> str | None:
    """The saga that a process leaves which dies at an append; None: it came to its end alive."""
    logs: list[DyingLog] = []

    def dying(log: SagaLog) -> SagaLog:
        logs.append(DyingLog(log, at=at + 1, stored=stored))  # the saga's opening is the first append
        return logs[0]

    async with served(database, tools=files.registry, wrap=dying, adjust=settles_at_once) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as life:

            async def death() -> None:
                await logs[0].died.wait()
                life.cancel_scope.cancel()

            life.start_soon(death)
            await scenario(server, saga_id)
            life.cancel_scope.cancel()
            return None
        return saga_id


async def finish(server: Server, saga_id: str) -> list[str]:
    """Undo what is left; a person who is asked about a file that only the call itself can have changed says so."""
    asked: list[str] = []
    await server.rest(saga_id)
    await server.abort(saga_id)
    for _ in range(4):
        await server.rest(saga_id)
        items = await server.items(saga_id)
        if not items:
            break
        asked += [item.kind for item in items]
        (item,) = items
        assert item.kind is ItemKind.GUARD_CONFLICT
        await _say_that_it_was_us(server, saga_id, item.step)
    assert await server.state(saga_id) == "compensated"
    return asked


async def _say_that_it_was_us(server: Server, saga_id: str, number: int) -> None:
    await server.engine.decide_item(
        saga_id, lambda now, d: overwrite(now, number, by="ada", note="it was us", driving=d)
    )


@pytest.mark.timeout(180)
@pytest.mark.parametrize("stored", [False, True], ids=["before-it-is-stored", "after-it-is-stored"])
async def test_a_death_around_any_durable_write_leaves_the_files_as_they_were(
    tmp_path: Path,
    stored: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A lost outcome or after-image can only be told by a person: what is there may be somebody else's by now."""
    asked: dict[int, list[str]] = {}
    at = 0
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        files = Files(folder)
        for name, content in BEFORE.items():
            if content is not None:
                files.put(name, content)
        saga_id = await run_until_death(files, folder / "saga.db", at=at, stored=stored)
        if saga_id is None:
            break
        async with served(folder / "saga.db", tools=files.registry, adjust=settles_at_once) as successor:
            asked[at] = await finish(successor, saga_id)
        assert {name: files.content(name) for name in BEFORE} == BEFORE, f"died at append {at}: {files.sent}"
    assert at > 12  # three steps of three appends, an abort and three undos
    assert any(asked.values())
    assert not all(asked.values())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
async def test_an_append_that_nobody_can_be_sure_of_leaves_the_files_as_they_were(tmp_path: Path, fault: Fault) -> None:
    """The process lives on (S10.1)."""
    at = 0
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        files = Files(folder)
        for name, content in BEFORE.items():
            if content is not None:
                files.put(name, content)
        logs: list[DoubtfulLog] = []

        def doubted(log: SagaLog, at: int = at, logs: list[DoubtfulLog] = logs) -> SagaLog:
            logs.append(DoubtfulLog(log, fault, at=at + 1, unreadable=1))  # the saga's opening is the first append
            return logs[0]

        async with served(
            folder / "saga.db", tools=files.registry, wrap=doubted, adjust=settles_at_once, probe_for_s=0.5
        ) as server:
            saga_id = await server.begin()
            with contextlib.suppress(LogUnavailable, Refused):
                await scenario(server, saga_id)
            await finish(server, saga_id)
            if not logs[0].met:
                break
        assert {name: files.content(name) for name in BEFORE} == BEFORE, f"{logs[0].met} at append {at}: {files.sent}"
    assert at > 12
