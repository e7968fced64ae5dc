"""Two projects on one database, and one that moves (SEMANTICS.md S1.1, S1.2)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.project import Project, here

from saga_mcp.domain.values import ItemKind

ITEM = ItemKind.TARGET_CHANGED.value


@pytest.fixture
def other(project: Project, tmp_path: Path) -> Project:
    """Another project, whose config names the first one's database."""
    other = Project.written_to(tmp_path / "bank")
    change(other, 'name = "shop"', 'name = "bank"')
    change(other, "sqlite:///saga.db", f"sqlite:///{project.folder / 'saga.db'}")
    return other


def change(project: Project, old: str, new: str) -> None:
    text = project.config.read_text()
    assert old in text
    project.config.write_text(text.replace(old, new, 1))


def moved(project: Project, to: Path) -> Project:
    shutil.move(project.folder, to)
    return Project(to)


@pytest.mark.slow
def test_two_projects_on_one_database_neither_see_nor_touch_each_other(project: Project, other: Project) -> None:
    project.trouble("cancel-impossible")
    mine = project.saga(("book", "room"), abort=True)
    theirs = other.saga(("book", "room"))

    assert [saga["id"] for saga in project.run("list", "--json").json["sagas"]] == [mine.id]
    assert [saga["id"] for saga in other.run("list", "--json").json["sagas"]] == [theirs.id]
    assert other.run("attention", "--json").json["items"] == []
    for command in (
        ["show", mine.id],
        ["abort", mine.id, "--yes"],
        ["commit", mine.id, "--yes"],
        ["retry", f"{mine.id}.1", "--yes"],
        ["exempt", f"{mine.id}.1", "--yes"],
        ["resolve", f"{mine.id}.1", "--undone", "--yes"],
    ):
        refused = other.run(*command, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (1, "saga_not_found"), command
    assert (project.world, other.world) == (["room"], ["room"])


@pytest.mark.slow
def test_a_server_of_another_realm_does_not_pass_for_one_of_this(project: Project, other: Project) -> None:
    mine = project.saga(("book", "room"))
    with other.serving():
        assert other.run("--json").json["servers"] != []
        assert project.run("--json").json["servers"] == []
        undone = project.run("abort", mine.id, "--yes", "--json").json
    assert (undone["driven_by"], undone["saga"]["state"]) == ("this command", "compensated")
    assert project.world == []


@pytest.mark.slow
def test_a_moved_folder_keeps_its_log_by_its_name(project: Project, tmp_path: Path) -> None:
    saga = project.saga(("book", "room"))
    there = moved(project, tmp_path / "elsewhere")
    assert [row["id"] for row in there.run("list", "--json").json["sagas"]] == [saga.id]
    assert there.run("abort", saga.id, "--yes").code == 0
    assert there.world == []
    assert "has no name" not in there.run().out


@pytest.mark.slow
def test_without_a_name_a_moved_folder_is_another_realm_and_is_told_the_way_back(
    project: Project, tmp_path: Path
) -> None:
    change(project, 'name = "shop"\n', "")
    saga = project.saga(("book", "room"))
    before = project.run("--json").json["realm"]
    assert f'name = "{before}" keeps it wherever the folder goes.' in project.run().out

    there = moved(project, tmp_path / "elsewhere")
    assert there.run("list", "--json").json["sagas"] == []
    page = there.run()
    assert "[saga] has no name" in page.out
    assert f"its sagas are in one of these: {before}" in page.out
    assert there.run("--json").json["other_realms"] == [before]

    change(there, "[saga]\n", f'[saga]\nname = "{before}"\n')
    assert there.run("abort", saga.id, "--yes").code == 0
    assert there.world == []


def test_a_moved_folder_with_a_log_of_its_own_is_told_of_the_old_one(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    change(project, 'name = "shop"\ndatabase = "sqlite:///saga.db"\n', "")
    saga = project.saga(("book", "room"))
    (tmp_path / "new").mkdir()
    there = moved(project, tmp_path / "new" / "shop")

    capfd.readouterr()
    assert here(there, "--json") == 0
    page = json.loads(capfd.readouterr().out)
    assert not page["database_exists"]
    assert len(page["other_realms"]) == 1

    change(there, "[saga]\n", f'[saga]\nname = "{page["other_realms"][0]}"\n')
    assert here(there, "abort", saga.id, "--yes") == 0
    assert there.world == []


@pytest.mark.slow
def test_a_renamed_registry_is_another_place_until_it_has_its_name_again(project: Project) -> None:
    """S1.2: nothing is sent there; a person renames it back and retries."""
    saga = project.saga(("book", "room"), ("pay", "bill"))
    change(project, "[python.shop]", "[python.store]")
    assert project.run("abort", saga.id, "--yes").code == 1
    (item,) = project.run("attention", "--json").json["items"]
    assert (item["item"], item["kind"], item["blocks"]) == (f"{saga.id}.2", ITEM, 1)
    assert "put it back, then retry" in item["message"]
    assert project.world == ["bill", "room"]

    change(project, "[python.store]", "[python.shop]")
    assert project.run("retry", f"{saga.id}.2", "--yes").code == 0
    assert project.world == []
