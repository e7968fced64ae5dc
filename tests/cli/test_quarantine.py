"""A saga whose events cannot be read is listed so, also after its end (SEMANTICS.md S10.3, S14.3)."""

from __future__ import annotations

import contextlib
import io
import sqlite3
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

import pytest
from tests.cli.project import Answer, Project, here


@pytest.fixture
def ended(project: Project) -> str:
    """A saga that was undone to its end, and cannot be read any more; another one is beside it."""
    bad, _ = project.saga(("book", "room"), abort=True), project.saga(("book", "other"), abort=True)
    written(project, bad.id, "StepImagined")
    return bad.id


def run(project: Project, *arguments: str) -> Answer:
    """The command in this process: starting one takes most of the time."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = here(project, *arguments)
    return Answer(code, out.getvalue(), err.getvalue())


def written(project: Project, saga_id: str, kind: str) -> None:
    """Let the saga's third event be of this kind."""
    with contextlib.closing(sqlite3.connect(project.folder / "saga.db")) as raw, raw:
        raw.execute("UPDATE saga_event SET type = ? WHERE saga_id = ? AND seq = 3", (kind, saga_id))


def listed(project: Project, saga_id: str, *options: str) -> list[str]:
    found = run(project, "list", "--json", *options).json["sagas"]
    return [each["state"] for each in found if each["id"] == saga_id]


def waiting(project: Project) -> list[tuple[str, str]]:
    return [(each["item"], each["kind"]) for each in run(project, "attention", "--json").json["items"]]


@pytest.mark.parametrize("meets", [["show"], ["export"], ["verify"], ["abort", "--yes"]], ids=" ".join)
def test_who_meets_an_ended_saga_that_cannot_be_read_has_it_listed_so(
    project: Project, ended: str, meets: Sequence[str]
) -> None:
    answer = run(project, meets[0], ended, *meets[1:])
    assert "quarantined" in answer.out + answer.err
    assert listed(project, ended) == ["quarantined"]
    assert listed(project, ended, "--open") == ["quarantined"]
    assert waiting(project) == [(f"{ended}.0", "quarantine")]
    assert run(project, "list").last_line.startswith("2 sagas: 1 compensated, 1 quarantined")
    assert "1 item for a person" in run(project).out


def test_once_it_can_be_read_again_it_is_what_it_was(project: Project, ended: str) -> None:
    kind = "StepSucceeded"
    run(project, "show", ended)
    written(project, ended, kind)
    assert listed(project, ended) == ["compensated"]
    assert waiting(project) == []
    verified = run(project, "verify")
    assert (verified.code, "quarantined" in verified.out) == (0, False)
    assert row(project, ended) == ("compensated", 0, 0)
    assert listed(project, ended, "--open") == []


def test_a_saga_under_way_that_cannot_be_read_waits_for_a_person(project: Project) -> None:
    saga = project.saga(("book", "room"))
    written(project, saga.id, "StepImagined")
    run(project, "show", saga.id)
    assert waiting(project) == [(f"{saga.id}.0", "quarantine")]
    assert listed(project, saga.id) == ["quarantined"]


def test_what_verify_says_of_it(project: Project, ended: str) -> None:
    found: Answer = run(project, "verify", ended, "--json")
    (checked,) = found.json["sagas"]
    assert checked["unreadable"] == "event 3 cannot be read: unknown event type 'StepImagined'"


def test_a_log_that_cannot_be_written_is_read_all_the_same(project: Project, ended: str) -> None:
    file = project.folder / "saga.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        answer = run(project, "show", ended)
    assert "quarantined" in answer.err
    assert row(project, ended) == ("compensated", 0, 0)


def row(project: Project, saga_id: str) -> tuple[str, int, int]:
    with contextlib.closing(sqlite3.connect(project.folder / "saga.db")) as raw:
        found = raw.execute("SELECT state, items, open FROM saga WHERE id = ?", (saga_id,)).fetchone()
    return found[0], found[1], found[2]
