"""What others read: `export`, `schema`, `show --diff`, and who is alive in `list` (DESIGN.md 5.4)."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.cli.project import Project, here

from saga_mcp.app import App
from saga_mcp.config import config_schema
from saga_mcp.domain.events import StepIntended, StepObserved, StepPlan, StepSucceeded
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, Kind

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/saga.toml"))


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.slow
def test_an_export_has_every_event_and_no_value_unless_asked(project: Project) -> None:
    project.trouble("book-fails")
    saga = project.saga(("pay", "SECRET-bill"), ("book", "room"))
    plain = project.run("export", saga.id)
    assert plain.code == 0
    found = events(plain.out)
    assert [event["seq"] for event in found] == list(range(1, saga.seq + 1))
    assert [event["type"] for event in found][:3] == ["SagaOpened", "StepIntended", "StepSucceeded"]
    assert (found[1]["saga"], found[1]["facts"]["plan"]["tool"]) == (saga.id, "shop.pay")
    assert "SECRET" not in plain.out
    assert "values" not in plain.out
    assert f"{saga.seq} events of {saga.id}, without values" in plain.err

    whole = events(project.run("export", saga.id, "--values").out)
    assert whole[1]["values"]["plan"]["args"] == {"name": "SECRET-bill"}
    assert whole[2]["values"]["result"] == {"receipt": "r-SECRET-bill"}


@pytest.mark.slow
def test_of_a_saga_that_cannot_be_read_what_comes_before_is_exported(project: Project) -> None:
    saga = project.saga(("book", "room"))
    with closing(sqlite3.connect(project.folder / "saga.db")) as log, log:
        log.execute("UPDATE saga_event SET facts = '{' WHERE seq = 3")
    answer = project.run("export", saga.id)
    assert answer.code == 1
    assert [event["seq"] for event in events(answer.out)] == [1, 2]
    assert "is quarantined" in answer.err


@pytest.mark.parametrize("name", ["sg-1", "{id}.1"])
def test_an_export_takes_a_saga(name: str, project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    saga = project.saga(("book", "room"))
    capfd.readouterr()
    assert here(project, "export", name.format(id=saga.id), "--json") in {1, 2}
    assert "error" in json.loads(capfd.readouterr().out)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_schema_takes_every_example(path: Path) -> None:
    jsonschema.validate(tomllib.loads(path.read_text(encoding="utf-8")), config_schema())


@pytest.mark.slow
def test_the_schema_knows_one_undo_and_a_list_of_them(project: Project) -> None:
    schema = project.run("schema").json
    jsonschema.Draft202012Validator.check_schema(schema)
    undo = {"tool": "crm.delete", "args": {"id": "${result.id}"}}
    for right in (undo, [undo, {"nothing": True}]):
        jsonschema.validate({"tools": {"crm.add": {"undo": right}}}, schema)
    wrong: list[dict[str, Any]] = [
        {"sagas": {}},
        {"saga": {"on_idle": "stop"}},
        {"tools": {"crm.add": {"undo": {"tol": "x"}}}},
    ]
    for each in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(each, schema)


def _image(text: str) -> JsonObject:
    return {"found": True, "result": None, "text": text}


def captured(project: Project) -> Saga:
    """Appended by hand: the shop captures nothing."""
    saga = project.saga(("book", "room"))
    plan = StepPlan(tool="shop.write", kind=Kind.COMPENSABLE, pair_hash="p", looks_after=True)
    step = StepIntended(step=2, plan=plan, owner="gone", capture=_image("one\x1b[2J\ntwo"))

    async def work(opened: App) -> Saga:
        done = (
            step,
            StepSucceeded(step=2, parts=(), result="ok"),
            StepObserved(step=2, parts=(), image=_image("one\nthree")),
        )
        return await opened.engine.decide_item(saga.id, lambda _saga, _driving: done)

    return project.on_engine(work, drive=False)


def test_before_and_after_are_shown_where_they_were_captured(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    saga = captured(project)
    capfd.readouterr()
    assert here(project, "show", saga.id, "--diff") == 0
    out = capfd.readouterr().out
    assert "--- step 2 shop.write: captured before" in out
    assert "-two" in out
    assert "+three" in out
    assert "\x1b" not in out
    assert here(project, "show", f"{saga.id}.2", "--diff", "--json") == 0
    (shown,) = json.loads(capfd.readouterr().out)["diff"]
    assert (shown["step"], shown["result"], shown["left"]["text"]) == (2, "ok", "one\nthree")


def test_where_nothing_was_captured_that_is_said(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    saga = project.saga(("book", "room"))
    capfd.readouterr()
    assert here(project, "show", saga.id, "--diff") == 0
    assert "Nothing was captured before these steps" in capfd.readouterr().out
    assert here(project, "show", saga.id, "--diff", "--json") == 0
    assert json.loads(capfd.readouterr().out)["diff"] == []


@pytest.mark.slow
def test_a_list_says_what_is_held_up_and_who_is_alive(project: Project) -> None:
    project.trouble("cancel-impossible")
    stuck = project.saga(("book", "oldest"), ("book", "older"), ("book", "room"), abort=True)
    (row,) = project.run("list", "--json").json["sagas"]
    assert (row["id"], row["blocks"], row["driver_pid"]) == (stuck.id, 2, None)
    assert "BLOCKS" in project.run("list").out
    with project.serving() as server:
        assert f"Alive: pid {server.pid}, up " in project.run("list").out
        assert f"Alive: pid {server.pid}, up " in project.run("attention").out
