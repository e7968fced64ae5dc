"""Workflows that earlier versions have begun go on under this one: stored histories are replayed by today's code.

A new history is added when the workflow changes; an old one is never replaced. They hold ids and times only.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from saga_mcp.engine.drivers.temporal.workflow import DriveSaga

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


@pytest.mark.parametrize("history", HISTORIES, ids=lambda each: each.stem)
async def test_a_stored_history_is_replayed(history: Path) -> None:
    """In the sandbox of Temporal's SDK, which also finds what is not deterministic."""
    replayer = Replayer(workflows=[DriveSaga])
    stored = WorkflowHistory.from_json(history.stem, history.read_text(encoding="utf-8"))  # noqa: ASYNC240 - a small file
    await replayer.replay_workflow(stored)


def test_there_are_histories_of_every_way_to_go_on() -> None:
    assert {each.stem for each in HISTORIES} >= {"rollback", "back_off", "woken_in_a_back_off", "woken_in_a_turn"}
