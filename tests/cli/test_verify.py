"""`verify`: what somebody did to the log by hand (SEMANTICS.md S11.5)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.project import Project, here

CHANGED = "UPDATE saga_event SET payload = replace(payload, 'room', 'suite') WHERE seq = 2"


def by_hand(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "saga.db")) as log, log:
        assert log.execute(statement).rowcount == 1


@pytest.mark.slow
def test_a_log_that_nobody_touched_is_as_it_was_written(project: Project) -> None:
    first = project.saga(("book", "room"), ("pay", "bill"), abort=True)
    second = project.saga(("book", "hall"))
    answer = project.run("verify")
    assert (answer.code, answer.err) == (0, "")
    total = first.seq + second.seq
    assert answer.last_line == (
        f"2 sagas, {total} events checked: all as they were written, in {project.folder / 'saga.db'}"
    )
    found = project.run("verify", first.id, "--json").json
    assert (found["broken"], [saga["id"] for saga in found["sagas"]]) == (0, [first.id])
    assert (found["sagas"][0]["events"], found["sagas"][0]["ok"], len(found["sagas"][0]["head"])) == (
        first.seq,
        True,
        64,
    )


@pytest.mark.slow
def test_a_value_that_was_changed_by_hand_is_named_by_saga_and_event(project: Project) -> None:
    saga = project.saga(("book", "room"))
    by_hand(project.folder, CHANGED)
    answer = project.run("verify")
    assert answer.code == 1
    assert f"{saga.id}  event 2 has values that were changed" in answer.out
    assert "1 saga, 3 events checked: 1 saga not as written" in answer.last_line
    found = project.run("verify", "--json")
    assert found.code == 1
    assert (found.json["sagas"][0]["event"], found.json["sagas"][0]["ok"]) == (2, False)


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [("sg-1", 1, "neither a saga id"), ("{id}.1", 2, "takes the saga"), ("{other}", 1, "There is no saga")],
)
def test_only_a_saga_of_the_log_can_be_checked(
    name: str, code: int, says: str, project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    saga = project.saga(("book", "room"))
    asked = name.format(id=saga.id, other=_other(project))
    capfd.readouterr()
    assert here(project, "verify", asked, "--json") == code
    assert says in json.loads(capfd.readouterr().out)["error"]["message"]


def _other(project: Project) -> str:
    """The id of a saga of another log."""
    return Project.written_to(project.folder / "elsewhere").saga(("book", "room")).id


def test_where_there_is_no_log_there_is_nothing_to_check(project: Project) -> None:
    assert project.run("verify").code == 1


@pytest.mark.parametrize(
    ("statement", "what", "advice"),
    [
        ("DELETE FROM saga_pair", "is gone", "is not in the saga log any more"),
        ("UPDATE saga_pair SET content = replace(content, 'refund', 'remind')", "was changed", "was changed in the"),
        ("UPDATE saga_pair SET content = 'no json'", "was changed", "was changed in the saga log"),
    ],
)
def test_a_stored_undo_that_was_changed_or_deleted_is_named_by_saga_and_step(
    statement: str, what: str, advice: str, project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    saga = project.saga(("pay", "room"))
    by_hand(project.folder, statement)
    capfd.readouterr()
    assert here(project, "verify") == 1
    said = capfd.readouterr().out
    assert f"{saga.id}  what undoes step 1 {what}: its stored pair" in said
    assert "1 saga not as written" in said
    assert here(project, "verify", "--json") == 1
    (told,) = json.loads(capfd.readouterr().out)["sagas"]
    assert (told["ok"], told["event"], told["steps"]) == (False, None, [1])
    here(project, "abort", saga.id, "--yes")
    capfd.readouterr()
    here(project, "show", f"{saga.id}.1")
    shown = capfd.readouterr().out
    assert advice in shown
    assert "upgrade it" not in shown
    assert project.world == ["room"]  # nothing was sent
