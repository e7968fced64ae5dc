"""What agents read of a revert, and of the saga that was reverted (SEMANTICS.md S13)."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from mcp.client import Client
from tests.domain import alphabet as a
from tests.domain.test_reverting import DRIVING, GUARDED, PERSON, kept
from tests.edge.scripted import SAGA_ID, Script, scripted
from tests.edge.served import text_of

from saga_mcp.domain import events as e
from saga_mcp.domain.machine import fold
from saga_mcp.domain.reverting import RevertOrder, revert
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind
from saga_mcp.edge.look import Look
from saga_mcp.edge.status import saga_view
from saga_mcp.edge.wording import trailing
from saga_mcp.engine.port import EngineSettings

SETTINGS = EngineSettings(realm="test", agent_may_revert=True)


def same(name: str) -> str:
    return name


OLD = kept((GUARDED, (a.ONCE,)), (GUARDED, (a.ONCE,)))
BEGUN = revert(OLD, PERSON, DRIVING)
NEW = BEGUN.opened
REVERTED = fold(OLD, BEGUN.noted)
HALF = fold(NEW, [e.UndoIntended(step=2, part="1", owner="me"), e.UndoSucceeded(step=2, part="1")])
STUCK = fold(HALF, [e.UndoParked(step=1, part="1", item=ItemKind.GUARD_CONFLICT, message="changed")])
UNDONE = fold(
    HALF,
    [e.UndoIntended(step=1, part="1", owner="me"), e.UndoSucceeded(step=1, part="1"), e.RollbackFinished()],
)


@pytest.mark.parametrize(
    ("saga", "said"),
    [
        (HALF, "REVERTS sg-old: 1 of 2 undone so far. Closed to new calls. saga_status tells the end.]"),
        (STUCK, "REVERTS sg-old, NOT FULLY UNDONE: guarded waits for a person (item sg-new.1). Tell the user."),
        (UNDONE, "REVERTS sg-old: all 2 steps are undone or had no effect, nothing is open. Do not undo anything"),
        (REVERTED, "COMMITTED, and reverted by sg-new. saga_status of that one tells how far]"),
    ],
    ids=["going on", "stuck", "undone", "the old one"],
)
def test_the_last_line_says_which_saga_is_reverted_and_how_far(saga: Saga, said: str) -> None:
    assert trailing(Look.at(saga), 0, same).startswith(f"[saga {saga.id} {said}")


def test_the_status_of_both_names_the_other() -> None:
    old, new = (cast("dict[str, Any]", saga_view(Look.at(saga), same)) for saga in (REVERTED, UNDONE))
    assert (old["state"], old["reverted_by"], old["summary"]) == (
        "committed",
        ["sg-new"],
        "committed: 2 done, 0 open; reverted by sg-new",
    )
    assert old["next"] == ["Nothing here: it is reverted by sg-new. saga_status of that one tells how far."]
    assert (new["reverts"], new["cause"]["text"]) == ("sg-old", "the committed saga sg-old is reverted")
    assert [step["undoes"] for step in new["steps"]] == [1, 2]
    assert new["next"] == ["Tell the user: sg-old is reverted."]


async def test_the_agents_call_asks_for_what_is_guarded_in_its_name() -> None:
    script = Script(state=UNDONE, settings=SETTINGS)
    async with Client(scripted(script)) as client:
        result = await client.call_tool("saga_revert", {"saga_id": SAGA_ID, "reason": "the user asked"})
        bad = await client.call_tool("saga_revert", {"saga_id": SAGA_ID, "step": 1})
    assert script.asked == [
        ("revert", {"saga_id": SAGA_ID, "order": RevertOrder(by="agent", reason="the user asked", agent=True)})
    ]
    assert result.structured_content is not None
    assert result.structured_content["saga_id"] == "sg-new"
    assert bad.is_error
    assert 'there is no argument "step"' in text_of(bad)
    assert json.dumps(result.structured_content["saga"]) == '{"id": "sg-new", "state": "compensated"}'
