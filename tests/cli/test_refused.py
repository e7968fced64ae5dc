"""What a command refuses is said in commands: nobody on the command line has the tools of an agent."""

from __future__ import annotations

import re

import pytest
from tests.cli.project import Project, here

from saga_mcp.cli.refused import for_people
from saga_mcp.domain import errors
from saga_mcp.domain.errors import Refused

OF_AGENTS = re.compile(
    r"saga_(begin|commit|abort|status|savepoint|revert)|[Tt]ell the user|pass its saga_id|ask the user"
)
REFUSALS: list[Refused] = [
    errors.SagaAborted("sg-1", "step 3"),
    errors.SagaAborted("sg-1", "step 3", ("sg-1.2",)),
    errors.SagaClosed("sg-1"),
    errors.ResourceHeld("shop.pay", "sg-2", "till"),
    errors.ResourceHeld("shop.pay", "sg-2"),
    errors.ResourceHeld("shop.pay", "sg-2", "till", waits=True),
    errors.ResourceHeld("shop.pay", "", "till"),
    errors.ToolPaused("shop.pay", "ada", "the bank is closed"),
    errors.RepeatRefused("shop.pay", 2),
    errors.RevertRefused("sg-1", "it is not committed: saga_abort undoes it"),
    errors.SagaNotFound("sg-1"),
]


@pytest.mark.parametrize("refused", REFUSALS, ids=str)
def test_no_refusal_sends_a_person_to_a_tool_of_an_agents(refused: Refused) -> None:
    said = for_people(refused)
    assert not OF_AGENTS.search(said), said
    assert "Nothing was" in said or "not committed" in said


@pytest.mark.parametrize(("command", "move"), [("commit", "saga-mcp show"), ("revert", "not kept")])
def test_an_aborted_saga_refuses_a_person_in_words_for_people(
    command: str, move: str, project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    saga = project.saga(("book", "room"), abort=True)
    capfd.readouterr()
    assert here(project, command, saga.id, "--yes") == 1
    said = capfd.readouterr().err
    assert move in said
    assert not OF_AGENTS.search(said), said
