"""`saga-mcp demo`: two sagas on the real engine, over a real saga log that is gone afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from saga_mcp import app
from saga_mcp.app import App
from saga_mcp.cli.demo_pair import world
from saga_mcp.cli.items import history
from saga_mcp.cli.output import CommandFailed, Output
from saga_mcp.cli.timeline import timeline, timeline_json
from saga_mcp.domain.attention import summary
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, JsonValue, Phase
from saga_mcp.engine.port import Caller
from saga_mcp.log.port import Record

_CONFIG = """\
[saga]
name = "demo"
database = "sqlite:///demo.db"

[python.demo]
module = "saga_mcp.cli.demo_pair:registry"
"""
_AGENT = Caller()
_DRAIN_S = 2.0


def run(output: Output, *, values: bool) -> None:
    """Run it, and print what happened.

    Raises:
        CommandFailed: the sagas did not end as they should.
    """
    with tempfile.TemporaryDirectory(prefix="saga-mcp-demo-") as folder:
        config = Path(folder) / "saga.toml"
        config.write_text(_CONFIG, encoding="utf-8")
        anyio.run(_run, config, output, values)


async def _run(config: Path, output: Output, values: bool) -> None:  # noqa: FBT001 - for anyio.run
    async with app.open_app(app.load(config), ends_soon=True) as opened:
        engine = opened.engine
        kept = await engine.begin(_AGENT, purpose="a weekend for Ada")
        await engine.call("book_room", {"guest": "Ada", "nights": 2}, saga_id=kept.id, caller=_AGENT)
        await engine.call("charge", {"card": "valid", "euros": 180}, saga_id=kept.id, caller=_AGENT)
        kept = await engine.commit(kept.id, by="agent")
        after_first = list(world.values())

        undone = await engine.begin(_AGENT, purpose="a weekend for Charles")
        await engine.call("book_room", {"guest": "Charles", "nights": 2}, saga_id=undone.id, caller=_AGENT)
        meanwhile = list(world.values())
        await engine.call("charge", {"card": "expired", "euros": 180}, saga_id=undone.id, caller=_AGENT)
        undone = await engine.rest(undone.id)
        after_second = list(world.values())

        first, second = await _history(opened, kept), await _history(opened, undone)
        await engine.drain(_DRAIN_S)
    if output.as_json:
        shown: list[JsonValue] = [
            _json(saga, records, seen, values=values)
            for saga, records, seen in ((kept, first, after_first), (undone, second, after_second))
        ]
        output.json({"sagas": shown})
    else:
        output.text("An agent books a room and charges a card, then commits: both are kept.", "")
        output.text(*timeline(first, values=values), summary(kept), _world(after_first), "")
        output.text("It books another room. Before the next call:", _world(meanwhile))
        output.text("The card has expired, so the server undoes the room by itself:", "")
        output.text(*timeline(second, values=values), summary(undone), _world(after_second), "")
        output.text("Your own tools: saga-mcp init --python")
    if kept.phase is not Phase.COMMITTED or undone.phase is not Phase.COMPENSATED or after_first != after_second:
        raise CommandFailed("The sagas of the demonstration did not end as they should.", code="demo_failed")


async def _history(opened: App, saga: Saga) -> list[Record]:
    return [record async for record in history(opened.log, saga.id)]


def _json(saga: Saga, records: list[Record], seen: list[str], *, values: bool) -> JsonObject:
    events = timeline_json(records, values=values)
    return {"id": saga.id, "summary": summary(saga), "world": [*seen], "timeline": events}


def _world(seen: list[str]) -> str:
    return f"The world now: {'; '.join(seen) or 'empty'}."
