"""What was there before a step is put back, byte for byte, and nobody else's work is overwritten (S5.3, S6.6, S6.7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.captures.files import Files
from tests.world.server import eventually

from saga_mcp.testing import CallFailed, Harness

BYTES = bytes(range(256)) * 3
"""No text in any encoding."""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
async def h(files: Files) -> AsyncGenerator[Harness]:
    async with Harness(files.registry) as harness:
        yield harness


async def test_what_was_there_is_put_back_byte_for_byte(h: Harness, files: Files) -> None:
    files.put("a", BYTES)
    saga = h.saga()
    await saga.call("write", name="a", text="new")
    assert files.content("a") == b"new"
    await saga.abort()
    assert files.content("a") == BYTES
    assert saga.state == "compensated"


async def test_what_was_not_there_is_gone_again(h: Harness, files: Files) -> None:
    saga = h.saga()
    await saga.call("write", name="a", text="new")
    await saga.abort()
    assert files.content("a") is None


async def test_two_writes_to_one_file_end_with_what_was_there_before_the_first(h: Harness, files: Files) -> None:
    files.put("a", BYTES)
    saga = h.saga()
    await saga.call("write", name="a", text="one")
    await saga.call("write", name="a", text="two")
    await saga.abort()
    assert files.content("a") == BYTES
    assert files.sent == ["write(a)", "write(a)", "restore(a)", "restore(a)"]


async def test_a_persons_edit_in_between_is_never_overwritten(h: Harness, files: Files) -> None:
    files.put("a", b"old")
    saga = h.saga()
    await saga.call("write", name="a", text="new")
    files.put("a", b"a person's own")
    await saga.abort()
    assert files.content("a") == b"a person's own"
    assert files.sent == ["write(a)"]
    assert saga.state == "needs_attention"
    assert [item.kind for item in saga.items] == ["guard_conflict"]


async def test_what_somebody_put_back_already_is_not_undone_again(h: Harness, files: Files) -> None:
    files.put("a", b"old")
    saga = h.saga()
    await saga.call("write", name="a", text="new")
    files.put("a", b"old")
    await saga.abort()
    assert files.sent == ["write(a)"]
    assert saga.state == "compensated"


async def test_a_capture_that_fails_refuses_the_step_and_nothing_is_sent(h: Harness, files: Files) -> None:
    files.path("a").mkdir()
    saga = h.saga()
    with pytest.raises(CallFailed) as failed:
        await saga.call("write", name="a", text="new")
    assert failed.value.code == "capture_failed"
    assert "Nothing was sent" in str(failed.value)
    assert files.sent == []
    await saga.commit()
    assert saga.steps == []


async def test_two_parallel_writes_to_one_file_do_not_overlap(h: Harness, files: Files) -> None:
    """S5.3: otherwise the one that is captured while the other writes would restore what the other wrote half."""
    files.put("a", b"old")
    began, go_on = anyio.Event(), anyio.Event()

    async def write(_name: str) -> None:
        began.set()
        await go_on.wait()

    files.on_write = write
    saga = h.saga()
    async with anyio.create_task_group() as calls:
        calls.start_soon(partial(saga.call, "write", name="a", text="one"))
        with anyio.fail_after(5):
            await began.wait()
        calls.start_soon(partial(saga.call, "write", name="a", text="two"))
        calls.start_soon(partial(saga.call, "write", name="b", text="else"))
        await eventually(lambda: files.content("b") == b"else")
        assert files.content("a") == b"one"
        go_on.set()
    assert files.content("a") == b"two"
    await saga.abort()
    assert files.content("a") == b"old"
    assert files.content("b") is None


async def test_what_another_saga_works_on_is_refused_at_once(h: Harness, files: Files) -> None:
    began, go_on = anyio.Event(), anyio.Event()

    async def write(_name: str) -> None:
        began.set()
        await go_on.wait()

    files.on_write = write
    one, other = h.saga(), h.saga(agent="other")
    await other.begin()
    async with anyio.create_task_group() as calls:
        calls.start_soon(partial(one.call, "write", name="a", text="one"))
        with anyio.fail_after(5):
            await began.wait()
        with pytest.raises(CallFailed) as refused:
            await other.call("write", name="a", text="two")
        assert refused.value.code == "resource_held"
        go_on.set()
    await other.call("write", name="a", text="two")
    assert files.content("a") == b"two"
