"""One stored value of an open saga is changed behind the server's back: a rollback never claims more than it did."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.world.reading import World
from tests.world.server import served

from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.values import JsonValue

OTHER_VALUES: tuple[JsonValue, ...] = (None, {}, "x", 7, [], True)
OTHER_TEXTS = ("null", "{}", "[]", '"x"', "5", "{broken", None)


@dataclass(frozen=True)
class Damage:
    """One column of one event, and what stands there."""

    column: str
    seq: int
    text: str | None


def damages(events: list[tuple[int, str, str | None]]) -> Iterator[Damage]:
    for seq, facts, payload in events:
        for column, stored in (("facts", facts), ("payload", payload)):
            whole: dict[str, Any] = json.loads(stored or "{}")
            texts = [text for text in OTHER_TEXTS if text is not None or column == "payload"]
            for name in whole:
                if name == "realm":
                    continue  # a saga of another realm is not there at all
                texts += [json.dumps(whole | {name: value}) for value in OTHER_VALUES]
                texts.append(json.dumps({other: value for other, value in whole.items() if other != name}))
            yield from (Damage(column, seq, text) for text in texts)


@pytest.mark.case(22, 67)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stride", [pytest.param(29, id="everyday"), pytest.param(1, id="all", marks=pytest.mark.slow)])
async def test_whatever_one_stored_value_becomes_nothing_is_called_undone_that_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    monkeypatch.setenv("LEDGER", str(whole / "world.jsonl"))
    async with served(whole / "saga.db") as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("charge", saga_id, cents=5)
        await server.call("reserve_many", saga_id, items=["x", "y"])
        await server.call("hold", saga_id, item="b")
    with contextlib.closing(sqlite3.connect(whole / "saga.db")) as log:
        events = log.execute("SELECT seq, facts, payload FROM saga_event WHERE saga_id = ?", (saga_id,)).fetchall()
    seen: set[str] = set()
    for number, damage in enumerate([*damages(events)][::stride]):
        folder = tmp_path / f"damaged{number}"  # one of its own: the last one's connections may still be closing
        shutil.copytree(whole, folder)
        with contextlib.closing(sqlite3.connect(folder / "saga.db")) as log, log:
            statement = f"UPDATE saga_event SET {damage.column} = ? WHERE saga_id = ? AND seq = ?"  # noqa: S608 - two names
            log.execute(statement, (damage.text, saga_id, damage.seq))
        world = World(folder / "world.jsonl")
        monkeypatch.setenv("LEDGER", str(world.file))
        async with served(folder / "saga.db", on_undo_failure="continue") as server:
            try:
                await server.abort(saga_id)
                await server.rest(saga_id)
                state = await server.state(saga_id)
            except SagaQuarantined:
                state = "quarantined"
            assert state in {"quarantined", "needs_attention", "compensated"}, damage
            assert state != "compensated" or world.standing == [], damage
            kept = await server.call("reserve", item="other")
            assert (await server.commit(kept.saga_id)).phase == "committed", damage
        seen.add(state)
        shutil.rmtree(folder)
    assert seen == {"quarantined", "needs_attention", "compensated"}
