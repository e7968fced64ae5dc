"""An undo without a guard, past which an older one at the same place was undone (S5.4, `"continue"`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.world.server import Server, served

from saga_mcp.domain.errors import Refused
from saga_mcp.domain.person_decisions import resolve_undone, retry
from saga_mcp.domain.values import ItemKind, OnUndoFailure
from saga_tools import CannotUndo, ToolRegistry, Undo

WHO = {"by": "ada", "note": "looked"}


class Board:
    """Words that tools write over each other, by their places."""

    def __init__(self) -> None:
        self.words = {"a": "before", "b": "before"}
        self.jams = "first"
        """The undo that would put this back fails."""
        registry = self.registry = ToolRegistry()

        @registry.tool
        async def write(place: str, word: str) -> None:
            self.words[place] = word

        @registry.captures(write)
        async def stands(place: str) -> str:
            return self.words[place]

        @registry.undoes(write)
        async def wipe(place: str, undo: Undo[None]) -> None:
            if undo.capture == self.jams:
                raise CannotUndo("the board is jammed")
            self.words[place] = undo.capture


async def passed(server: Server, older: str, newer: str) -> str:
    """The newer of two undos has failed, and the older one went on."""
    saga_id = await server.begin()
    await server.call("write", saga_id, place=older, word="first")
    await server.call("write", saga_id, place=newer, word="second")
    await server.abort(saga_id)
    await server.rest(saga_id)
    assert [(item.step, item.kind) for item in await server.items(saga_id)] == [(2, ItemKind.DEAD_LETTER)]
    return saga_id


async def test_an_undo_that_was_passed_is_not_tried_again_over_what_the_older_one_put_back(database: Path) -> None:
    board = Board()
    async with served(database, tools=board.registry, on_undo_failure=OnUndoFailure.CONTINUE) as server:
        saga_id = await passed(server, "a", "a")
        assert board.words["a"] == "before"
        board.jams = ""
        with pytest.raises(Refused, match=rf"{saga_id}\.1 worked on the same before .* `resolve --undone`"):
            await server.engine.decide_item(saga_id, lambda now, d: retry(now, 2, driving=d, **WHO))
        assert board.words["a"] == "before"
        await server.engine.decide_item(saga_id, lambda now, d: resolve_undone(now, 2, driving=d, **WHO))
        await server.rest(saga_id)
        assert (await server.state(saga_id), board.words["a"]) == ("compensated", "before")


async def test_an_undo_at_another_place_is_tried_again_whatever_passed_it(database: Path) -> None:
    board = Board()
    board.words["b"] = "jam"
    board.jams = "jam"
    async with served(database, tools=board.registry, on_undo_failure=OnUndoFailure.CONTINUE) as server:
        saga_id = await passed(server, "a", "b")
        board.jams = ""
        await server.engine.decide_item(saga_id, lambda now, d: retry(now, 2, driving=d, **WHO))
        await server.rest(saga_id)
        assert (await server.state(saga_id), board.words) == ("compensated", {"a": "before", "b": "jam"})
