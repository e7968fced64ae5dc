"""`saga-mcp revert`: the plan, the question, who goes on, and what its exit code says (SEMANTICS.md S13)."""

from __future__ import annotations

import json

import pytest
from tests.cli.project import Project, here, in_a_terminal

from saga_mcp.app import App
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase

Capture = pytest.CaptureFixture[str]


def kept(project: Project, *calls: tuple[str, str]) -> Saga:
    """A committed saga."""
    saga = project.saga(*(calls or (("book", "room"), ("pay", "bill"))), purpose="a trip")

    async def work(opened: App) -> Saga:
        return await opened.engine.commit(saga.id, by="agent")

    return project.on_engine(work)


def now(project: Project, saga_id: str) -> Saga:
    async def work(opened: App) -> Saga:
        return await opened.engine.saga(saga_id)

    return project.on_engine(work, drive=False)


def test_what_is_undone_and_what_nobody_looks_at_first_is_shown_before_it_is_done(project: Project) -> None:
    old = kept(project)
    answer = project.run("revert", old.id, "--by", "ada", "--note", "wrong customer", "--yes")
    assert (answer.code, project.world) == (0, []), answer
    (new,) = [other.revert for other in now(project, old.id).reverted]
    lines = answer.out.splitlines()
    assert lines[0] == f"Revert of {old.id}, newest step first:"
    assert [line.split()[:3] for line in lines[2:4]] == [
        ["2", "shop.pay", "shop.refund"],
        ["1", "shop.book", "shop.cancel"],
    ]
    assert lines[3].rstrip().endswith("nothing is looked at: a later change is lost")
    assert lines[-2:] == [
        f"{old.id} stays committed and is reverted by {new}.",
        f"{new}  compensated: 2 undone, 0 open",
    ]
    reverted = now(project, new)
    assert (reverted.aborted_by, reverted.reason, reverted.reverts) == ("ada", "wrong customer", old.id)
    assert reverted.purpose == f"revert of {old.id}: a trip"


def test_the_question_names_what_is_not_looked_at_and_a_no_changes_nothing(project: Project) -> None:
    old = kept(project)
    code, screen = in_a_terminal(project, "revert", old.id, typed=b"n\n", after=b"[y/N]", columns=200)
    assert code == 1, screen
    assert f"Undo 2 steps of {old.id}? 2 steps without a look at what was changed since" in screen
    assert "Nothing was changed." in screen
    assert project.world == ["bill", "room"]
    assert not now(project, old.id).reverted


def test_show_list_timeline_and_export_say_by_whom_a_saga_is_reverted(
    project: Project, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    old = kept(project)

    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert here(project, *arguments) == 0
        return capsys.readouterr().out

    said("revert", old.id, "--yes")
    (other,) = now(project, old.id).reverted
    new = other.revert
    shown = said("show", old.id)
    assert shown.splitlines()[-1] == f"committed: 2 done, 0 open; reverted by {new}"
    assert f"reverted by {new}: `saga-mcp show {new}` tells how far" in shown
    assert (shown.count(f"left to {new}"), "ready" in shown) == (2, False)
    assert f"by {new}, which undoes them" in said("show", old.id, "--timeline")
    assert f"undoes the committed saga {old.id}" in said("show", new, "--timeline")
    assert f"the committed saga {old.id} is reverted" in said("show", new)
    assert "REVERTED BY" in said("list")
    rows = {row["id"]: row for row in json.loads(said("list", "--json"))["sagas"]}
    assert (rows[old.id]["state"], rows[old.id]["reverted_by"]) == ("committed", [new])
    assert rows[new]["reverted_by"] == []
    assert f'"revert": "{new}"' in said("export", old.id)
    saga = json.loads(said("show", old.id, "--json"))["saga"]
    assert saga["reverted_by"] == [{"saga": new, "steps": [1, 2]}]


@pytest.mark.slow
def test_a_manual_undo_is_an_item_and_the_rest_goes_on_after_it(project: Project) -> None:
    old = kept(project, ("book", "room"), ("book", "table"))
    project.trouble("cancel-asks")
    answer = project.run("revert", old.id, "--yes", "--json")
    assert answer.code == 1
    assert answer.json["plan"]["steps"][0] == {
        "step": 2,
        "tool": "shop.book",
        "work": "undone",
        "unguarded": True,
        "undo": ["shop.cancel"],
        "stays": [],
    }
    (item,) = answer.json["saga"]["items"]
    assert (item["kind"], answer.json["reached"]) == ("manual_undo", False)
    project.trouble()
    assert project.run("resolve", item["item"], "--undone", "--yes").code == 0
    assert now(project, answer.json["saga"]["id"]).phase is Phase.COMPENSATED
    assert project.world == ["table"], "what a person says is undone is not looked for"


def test_past_the_point_of_no_return_it_goes_step_by_step(project: Project) -> None:
    old = kept(project, ("book", "room"), ("ship", "parcel"), ("tell", "ada"))
    refused = project.run("revert", old.id, "--yes")
    assert refused.code == 1
    assert f"`saga-mcp revert {old.id} --step 1`" in refused.err
    answer = project.run("revert", old.id, "--step", "1", "--yes")
    assert answer.code == 0, answer
    assert "Not touched: step 3 shop.tell, 2 shop.ship." in answer.out
    assert project.world == ["ada", "parcel"]


@pytest.mark.parametrize("which", ["open", "undone", "twice"])
def test_what_cannot_be_reverted_is_refused_and_nothing_is_changed(
    project: Project, which: str, capsys: Capture
) -> None:
    saga = kept(project) if which == "twice" else project.saga(("book", "room"), abort=which == "undone")
    if which == "twice":
        assert here(project, "revert", saga.id, "--yes") == 0
    before = now(project, saga.id).seq
    capsys.readouterr()
    assert here(project, "revert", saga.id, "--yes", "--json") == 1
    assert '"code": "revert_refused"' in capsys.readouterr().out
    assert now(project, saga.id).seq == before


def test_nobody_can_be_asked_and_an_item_is_no_saga(project: Project) -> None:
    old = kept(project)
    assert project.run("revert", old.id).code == 2
    assert project.run("revert", f"{old.id}.1", "--yes").code == 2
    assert project.world == ["bill", "room"]


@pytest.mark.slow
def test_a_living_server_does_it(project: Project) -> None:
    old = kept(project)
    with project.serving():
        answer = project.run("revert", old.id, "--yes", "--wait", "20")
        assert answer.code == 0, answer
        assert answer.last_line.endswith("compensated: 2 undone, 0 open")
    assert project.world == []


def test_detached_it_is_only_written_down(project: Project) -> None:
    old = kept(project)
    answer = project.run("revert", old.id, "--yes", "--detach")
    assert (answer.code, project.world) == (0, ["bill", "room"])
    assert project.run("recover", "--yes").code == 0
    assert project.world == []
