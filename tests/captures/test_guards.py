"""What a guard lets through, and what it hands to a person (S6.7)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import anyio
import pytest
from tests.captures.files import Files
from tests.world.server import Server, served, settles_at_once

from saga_mcp.domain.errors import Refused
from saga_mcp.domain.person_decisions import exempt, overwrite, retry
from saga_mcp.domain.values import ItemKind, OnUndoFailure
from saga_mcp.testing import CallFailed, Harness
from saga_tools import NoEffect, ToolRegistry, Undo

WHO = {"by": "ada", "note": "looked"}


class Shelf:
    """A number that tools and persons change."""

    def __init__(self) -> None:
        self.value = 1
        self.undone = 0
        self.registry = ToolRegistry()
        self.guard_fails = 0
        registry = self.registry

        @registry.tool
        async def put(value: int, lose: bool = False) -> None:  # noqa: FBT001, FBT002 - a JSON argument
            self.value = value
            if lose:
                raise ConnectionError("gone")

        @registry.captures(put)
        async def stands() -> int:
            return self.value

        @registry.guards(put)
        async def look(value: int, undo: Undo[None]) -> Literal["as_left", "as_before", "changed"]:
            if self.guard_fails:
                self.guard_fails -= 1
                raise ConnectionError("cannot look")
            if self.value == undo.capture:
                return "as_before"
            return "as_left" if self.value == value else "changed"

        @registry.undoes(put)
        async def put_back(undo: Undo[None]) -> None:
            self.undone += 1
            self.value = undo.capture


@pytest.mark.parametrize(
    ("between", "undone", "left", "state"),
    [(7, 1, 1, "compensated"), (1, 0, 1, "compensated"), (9, 0, 9, "needs_attention")],
    ids=["as it was left", "as it was before", "neither"],
)
async def test_a_guard_of_its_own_decides(between: int, undone: int, left: int, state: str) -> None:
    shelf = Shelf()
    async with Harness(shelf.registry) as h:
        saga = h.saga()
        await saga.call("put", value=7)
        shelf.value = between
        await saga.abort()
        assert (shelf.undone, shelf.value, saga.state) == (undone, left, state)


async def test_a_guard_that_cannot_look_is_tried_again_and_nothing_is_sent_meanwhile() -> None:
    shelf = Shelf()
    async with Harness(shelf.registry) as h:
        saga = h.saga()
        await saga.call("put", value=7)
        shelf.guard_fails = 3
        await saga.abort()
        assert (shelf.undone, shelf.value, saga.state) == (1, 1, "compensated")


async def test_a_guard_that_never_can_look_is_a_dead_letter() -> None:
    shelf = Shelf()
    async with Harness(shelf.registry) as h:
        saga = h.saga()
        await saga.call("put", value=7)
        shelf.guard_fails = 100
        await saga.abort()
        assert [item.kind for item in saga.items] == [ItemKind.DEAD_LETTER]
        assert (shelf.undone, shelf.value) == (0, 7)


@pytest.mark.parametrize(
    ("between", "undone", "step"), [(7, 1, "compensated"), (1, 0, "failed")], ids=["it landed", "it did not"]
)
async def test_of_a_step_in_doubt_a_guard_tells_whether_it_landed(between: int, undone: int, step: str) -> None:
    shelf = Shelf()
    async with Harness(shelf.registry, on_error="hold") as h:
        saga = h.saga()
        with pytest.raises(CallFailed):
            await saga.call("put", value=7, lose=True)
        shelf.value = between
        await saga.abort()
        assert (shelf.undone, shelf.value, saga.steps) == (undone, 1, [("put", step)])


async def conflict(server: Server, files: Files) -> str:
    files.put("a", b"old")
    reply = await server.call("write", name="a", text="new")
    files.put("a", b"a person's own")
    await server.abort(reply.saga_id)
    await server.rest(reply.saga_id)
    assert [item.kind for item in await server.items(reply.saga_id)] == [ItemKind.GUARD_CONFLICT]
    return reply.saga_id


async def test_a_person_may_overwrite(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        saga_id = await conflict(server, files)
        await server.engine.decide_item(saga_id, lambda now, d: overwrite(now, 1, driving=d, **WHO))
        await server.rest(saga_id)
        assert await server.state(saga_id) == "compensated"
    assert files.content("a") == b"old"


async def test_a_person_may_keep_what_is_there(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        saga_id = await conflict(server, files)
        await server.engine.decide_item(saga_id, lambda now, d: exempt(now, 1, driving=d, **WHO))
        await server.rest(saga_id)
        assert await server.state(saga_id) == "compensated"
    assert files.content("a") == b"a person's own"


async def two_conflicts(server: Server, files: Files, *names: str) -> str:
    """Two steps write, a person changes it later, and neither is undone."""
    for name in names:
        files.put(name, b"old")
    saga_id = await server.begin()
    for text, name in zip(("first", "second"), names, strict=True):
        await server.call("write", saga_id, name=name, text=text)
    for name in names:
        files.put(name, b"a person's own")
    await server.abort(saga_id)
    await server.rest(saga_id)
    assert [(item.step, item.kind) for item in await server.items(saga_id)] == [
        (1, ItemKind.GUARD_CONFLICT),
        (2, ItemKind.GUARD_CONFLICT),
    ]
    return saga_id


async def overwritten(server: Server, saga_id: str, step: int) -> None:
    await server.engine.decide_item(saga_id, lambda now, d: overwrite(now, step, driving=d, **WHO))
    await server.rest(saga_id)


async def test_of_two_conflicts_at_one_place_the_older_is_not_overwritten_first(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry, on_undo_failure=OnUndoFailure.CONTINUE) as server:
        saga_id = await two_conflicts(server, files, "a", "a")
        with pytest.raises(Refused, match=rf"Settle {saga_id}\.2 first"):
            await overwritten(server, saga_id, 1)
        assert files.content("a") == b"a person's own"
        await overwritten(server, saga_id, 2)
        await overwritten(server, saga_id, 1)
        assert (await server.state(saga_id), files.content("a")) == ("compensated", b"old")


async def test_after_the_newer_one_was_kept_the_older_may_be_overwritten(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry, on_undo_failure=OnUndoFailure.CONTINUE) as server:
        saga_id = await two_conflicts(server, files, "a", "a")
        await server.engine.decide_item(saga_id, lambda now, d: exempt(now, 2, driving=d, **WHO))
        await overwritten(server, saga_id, 1)
        assert (await server.state(saga_id), files.content("a")) == ("compensated", b"old")


async def test_conflicts_at_two_places_are_overwritten_in_any_order(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry, on_undo_failure=OnUndoFailure.CONTINUE) as server:
        saga_id = await two_conflicts(server, files, "a", "b")
        for step in (1, 2):
            await overwritten(server, saga_id, step)
        assert (await server.state(saga_id), files.content("a"), files.content("b")) == ("compensated", b"old", b"old")


async def test_what_an_older_step_left_is_not_put_back_over_its_own_undo(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry, on_undo_failure=OnUndoFailure.CONTINUE) as server:
        saga_id = await two_conflicts(server, files, "a", "a")
        files.put("a", b"first")  # a person takes the second step back, and says so of the first one only
        await server.engine.decide_item(saga_id, lambda now, d: retry(now, 1, driving=d, **WHO))
        await server.rest(saga_id)
        assert files.content("a") == b"old"
        with pytest.raises(Refused, match=rf"resolve {saga_id}\.2 --keep"):
            await overwritten(server, saga_id, 2)
        assert files.content("a") == b"old"


async def test_an_older_step_that_was_undone_before_does_not_keep_a_newer_one_from_being_overwritten(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        files.put("a", b"old")
        saga_id = await server.begin()
        await server.engine.savepoint(saga_id, "mark")
        await server.call("write", saga_id, name="a", text="first")
        await server.engine.abort(saga_id, cause="agent", to_savepoint="mark")
        await server.rest(saga_id)
        await server.call("write", saga_id, name="a", text="second")
        files.put("a", b"a person's own")
        await server.abort(saga_id)
        await server.rest(saga_id)
        await overwritten(server, saga_id, 2)
        assert (await server.state(saga_id), files.content("a")) == ("compensated", b"old")


async def test_a_person_may_put_it_right_and_let_it_look_again(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        saga_id = await conflict(server, files)
        files.put("a", b"new")
        await server.engine.decide_item(saga_id, lambda now, d: retry(now, 1, driving=d, **WHO))
        await server.rest(saga_id)
    assert files.content("a") == b"old"


async def test_an_undo_whose_answer_was_lost_is_not_sent_twice_where_the_world_shows_that_it_ran(
    tmp_path: Path,
) -> None:
    sent: list[str] = []
    registry = ToolRegistry()
    box = {"value": "old"}

    @registry.tool(guard="unchanged")
    async def put(value: str) -> None:
        box["value"] = value

    @registry.captures(put)
    async def stands() -> str:
        return box["value"]

    @registry.undoes(put, idempotent=False)
    async def put_back(undo: Undo[None]) -> None:
        sent.append("put_back")
        box["value"] = undo.capture
        raise ConnectionError("gone")

    async with served(tmp_path / "saga.db", tools=registry, adjust=settles_at_once) as server:
        reply = await server.call("put", value="new")
        await server.abort(reply.saga_id)
        await server.rest(reply.saga_id)
        assert await server.state(reply.saga_id) == "compensated"
    assert (sent, box) == (["put_back"], {"value": "old"})


@pytest.mark.parametrize(
    ("since", "kinds", "left"), [("new", [], "old"), ("theirs", [ItemKind.GUARD_CONFLICT], "theirs")]
)
async def test_a_step_that_its_probe_found_is_undone_unless_it_was_changed_since(
    tmp_path: Path, since: str, kinds: list[ItemKind], left: str
) -> None:
    registry = ToolRegistry()
    box = {"value": "old"}

    @registry.tool(guard="unchanged")
    async def put(value: str) -> str:
        box["value"] = value
        raise ConnectionError("gone")

    @registry.captures(put)
    async def stands() -> str:
        return box["value"]

    @registry.probes(put)
    async def find(value: str) -> str | None:
        return value if box["value"] == value else None

    @registry.undoes(put)
    async def put_back(undo: Undo[str]) -> None:
        box["value"] = undo.capture

    async with served(tmp_path / "saga.db", tools=registry, adjust=settles_at_once) as server:
        reply = await server.call("put", value="new")
        await server.rest(reply.saga_id)
        assert await server.state(reply.saga_id) == "active"
        box["value"] = since
        await server.abort(reply.saga_id)
        await server.rest(reply.saga_id)
        assert [item.kind for item in await server.items(reply.saga_id)] == kinds
    assert box == {"value": left}


async def test_a_call_that_answers_late_is_looked_at_when_it_does(tmp_path: Path) -> None:
    files = Files(tmp_path)
    go_on = anyio.Event()

    async def slow(_name: str) -> None:
        await go_on.wait()

    files.on_write = slow
    async with served(tmp_path / "saga.db", tools=files.registry, reply_within_s=0.1, on_error="hold") as server:
        reply = await server.call("write", name="a", text="new")
        assert reply.code == "still_running"
        go_on.set()
        await server.rest(reply.saga_id)
        assert "StepObserved" in await server.history(reply.saga_id)
        await server.abort(reply.saga_id)
        await server.rest(reply.saga_id)
        assert await server.state(reply.saga_id) == "compensated"
    assert files.content("a") is None


async def test_a_capture_is_made_only_for_a_call_that_is_admitted(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        reply = await server.call("write", name="a", text="new")
        await server.abort(reply.saga_id)
        await server.rest(reply.saga_id)
        reads = files.reads
        with pytest.raises(Refused):
            await server.call("write", reply.saga_id, name="a", text="again")
        assert files.reads == reads


async def test_a_failed_step_leaves_no_lock_behind(tmp_path: Path) -> None:
    files = Files(tmp_path)

    async def refuse(_name: str) -> None:
        raise NoEffect("no")

    files.on_write = refuse
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        for _ in range(2):
            assert (await server.call("write", name="a", text="new")).code == "step_failed"


@pytest.mark.parametrize(("ignore_order", "state"), [(True, "compensated"), (False, "needs_attention")])
async def test_a_guard_over_lists_may_ignore_their_order(ignore_order: bool, state: str) -> None:  # noqa: FBT001 - a case
    tags = ["a"]
    registry = ToolRegistry()

    @registry.tool(guard="unchanged", ignore_order=ignore_order)
    def tag(name: str) -> None:
        tags.append(name)

    @registry.captures(tag)
    def found() -> list[str]:
        return list(tags)

    @registry.undoes(tag)
    def put_back(undo: Undo[None]) -> None:
        tags[:] = undo.capture

    async with Harness(registry) as h:
        saga = h.saga()
        await saga.call("tag", name="b")
        tags.reverse()
        await saga.abort()
        assert saga.state == state
    assert tags == (["a"] if ignore_order else ["b", "a"])
