"""A step that captures is alone with what it works on, also between processes (S5.3)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.captures.files import Files
from tests.world.server import Server, eventually, served

from saga_mcp.domain.errors import ResourceHeld
from saga_mcp.domain.values import Phase


class Held:
    """A write that began, and goes on when it may."""

    def __init__(self, files: Files) -> None:
        self.began = anyio.Event()
        self.go_on = anyio.Event()
        files.on_write = self._write

    async def _write(self, _name: str) -> None:
        self.began.set()
        await self.go_on.wait()


async def write(server: Server, saga_id: str, name: str, text: str) -> str:
    return (await server.call("write", saga_id, name=name, text=text)).code


async def test_a_second_process_is_kept_out_too(tmp_path: Path) -> None:
    files, database = Files(tmp_path), tmp_path / "saga.db"
    held = Held(files)
    async with (
        served(database, tools=files.registry) as one,
        served(database, tools=files.registry) as other,
        anyio.create_task_group() as calls,
    ):
        first, second = await one.begin(), await other.begin()
        calls.start_soon(write, one, first, "a", "one")
        with anyio.fail_after(5):
            await held.began.wait()
        with pytest.raises(ResourceHeld, match=f"saga {first} is working on the same thing"):
            await write(other, second, "a", "two")
        assert files.content("a") == b"one"
        held.go_on.set()
        await eventually(lambda: _free(other, second))
    assert files.content("a") == b"two"


async def _free(server: Server, saga_id: str) -> bool:
    try:
        return await write(server, saga_id, "a", "two") == ""
    except ResourceHeld:
        return False


async def test_the_same_saga_waits_for_its_other_step_in_another_process(tmp_path: Path) -> None:
    files, database = Files(tmp_path), tmp_path / "saga.db"
    files.put("a", b"old")
    held = Held(files)
    async with served(database, tools=files.registry) as one, served(database, tools=files.registry) as other:
        saga_id = await one.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(write, one, saga_id, "a", "one")
            with anyio.fail_after(5):
                await held.began.wait()
            calls.start_soon(write, other, saga_id, "a", "two")
            await eventually(lambda: len(files.sent) == 1)
            held.go_on.set()
        assert files.sent == ["write(a)", "write(a)"]
        assert (await other.abort(saga_id)).phase is Phase.COMPENSATED
    assert files.content("a") == b"old"


async def test_who_waits_too_long_for_its_own_saga_is_refused_and_nothing_is_sent(tmp_path: Path) -> None:
    files = Files(tmp_path)
    held = Held(files)
    async with served(tmp_path / "saga.db", tools=files.registry, reply_within_s=0.3) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(write, server, saga_id, "a", "one")
            with anyio.fail_after(5):
                await held.began.wait()
            with pytest.raises(ResourceHeld):
                await write(server, saga_id, "a", "two")
            assert files.sent == ["write(a)"]
            held.go_on.set()


async def test_a_process_that_died_with_a_lock_keeps_nobody_out(tmp_path: Path) -> None:
    files, database = Files(tmp_path), tmp_path / "saga.db"
    files.put("a", b"old")
    held = Held(files)
    async with served(database, tools=files.registry) as one:
        first = await one.begin()
        with anyio.CancelScope() as request:
            async with anyio.create_task_group() as calls:
                calls.start_soon(partial(write, one, first, "a", "one"))
                with anyio.fail_after(5):
                    await held.began.wait()
                request.cancel()
    held.go_on.set()
    async with served(database, tools=files.registry, on_error="hold") as other:
        second = await other.begin()
        await eventually(lambda: _free(other, second))
    assert files.content("a") == b"two"
