"""`prune`, wiping and encryption, judged by the bytes of the database (SEMANTICS.md S11.4, S11.5)."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
from contextlib import closing
from typing import Any, NoReturn

import anyio
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from tests.cli.project import AGENT, Project, here

from saga_mcp import app
from saga_mcp.app import App
from saga_mcp.domain.errors import SagaNotFound, SagaPruned
from saga_mcp.domain.state import Saga
from saga_mcp.edge.look import Look
from saga_mcp.edge.status import saga_view
from saga_mcp.log.keeping import Checked
from saga_mcp.log.sql import keeping
from saga_mcp.log.sql.reads import Reads
from saga_mcp.log.sql.rows import EventRows

VALUE = "hunter2-of-the-world"
KEY, OTHER = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


def configured(project: Project, *lines: str) -> None:
    text = project.config.read_text(encoding="utf-8")
    project.config.write_text(text.replace("[saga]\n", "[saga]\n" + "".join(f"{line}\n" for line in lines)))


def found_on_disk(project: Project, text: str = VALUE) -> bool:
    return any(text.encode() in file.read_bytes() for file in project.folder.glob("saga.db*") if file.is_file())


@pytest.mark.slow
def test_what_is_pruned_is_gone_from_the_file_and_its_id_says_so(project: Project) -> None:
    old = project.saga(("book", VALUE), abort=True)
    kept = project.saga(("book", "room"))
    assert found_on_disk(project)
    shown = project.run("prune", "--older-than", "0s", "--dry-run", "--json").json
    assert (shown["prune"], shown["pruned"]) == ([old.id], [])
    assert found_on_disk(project)
    answer = project.run("prune", "--older-than", "0s", "--yes")
    assert answer.code == 0
    assert answer.last_line.startswith("1 saga removed, of 0 sagas the values wiped")
    assert not found_on_disk(project)
    gone = project.run("show", old.id)
    assert gone.code == 1
    assert "compensated: 1 undone" in gone.err
    assert "was pruned on 20" in gone.err
    assert kept.id in project.run("list").out
    assert project.run("verify").code == 0

    async def ask() -> None:
        async with app.open_app(app.load(project.config), drive=False) as opened:
            with pytest.raises(SagaPruned):
                await opened.engine.saga(old.id)
            with pytest.raises(SagaPruned):
                await opened.engine.call("book", {"name": "x"}, saga_id=old.id, caller=AGENT)
        text = project.config.read_text(encoding="utf-8").replace('name = "shop"', 'name = "another"')
        project.config.write_text(text)
        async with app.open_app(app.load(project.config), drive=False) as opened:
            with pytest.raises(SagaNotFound) as refused:
                await opened.engine.saga(old.id)
            assert not isinstance(refused.value, SagaPruned)

    anyio.run(ask)


@pytest.mark.slow
def test_what_can_be_reverted_is_open_or_waits_for_a_person_is_not_pruned(project: Project) -> None:
    async def commit(opened: App) -> Saga:
        saga = await opened.engine.begin(AGENT)
        await opened.engine.call("book", {"name": "room"}, saga_id=saga.id, caller=AGENT)
        return await opened.engine.commit(saga.id, by="agent")

    committed = project.on_engine(commit)
    project.saga(("book", "hall"))
    project.trouble("cancel-asks")
    project.saga(("book", "stuck"), abort=True)
    assert project.run("prune", "--older-than", "0s", "--dry-run", "--json").json["prune"] == []
    configured(project, "revert_window_s = 0")
    assert project.run("prune", "--older-than", "0s", "--dry-run", "--json").json["prune"] == [committed.id]
    assert project.run("prune", "--older-than", "1d", "--dry-run", "--json").json["prune"] == []


@pytest.mark.slow
def test_a_saga_that_was_changed_by_hand_is_left_as_evidence(project: Project) -> None:
    saga = project.saga(("book", "room"), abort=True)
    with closing(sqlite3.connect(project.folder / "saga.db")) as log, log:
        log.execute("UPDATE saga_event SET at = at + 1 WHERE seq = 2")
    assert list(project.run("prune", "--older-than", "0s", "--yes", "--json").json["left"]) == [saga.id]
    configured(project, "wipe_values = true")
    kept = project.run("prune", "--yes", "--json").json
    assert (kept["wiped"], list(kept["left"])) == ([], [saga.id])
    assert project.run("verify").code == 1


def test_values_are_wiped_and_the_rest_stays_verifies_and_says_so(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert here(project, *arguments) == 0
        return capsys.readouterr().out

    saga = project.saga(("book", VALUE), abort=True)
    configured(project, "wipe_values = true")
    assert json.loads(said("prune", "--yes", "--json"))["wiped"] == [saga.id]
    assert not found_on_disk(project)
    said("verify")
    for way in ((), ("--values",), ("--timeline", "--values"), ("--diff",)):
        for name in (saga.id, f"{saga.id}.1"):
            assert "were wiped" in said("show", name, *way), (name, way)
    timeline = json.loads(said("show", saga.id, "--timeline", "--values", "--json"))["timeline"]
    exported = [json.loads(line) for line in said("export", saga.id, "--values").splitlines()]
    for events in (timeline, exported):
        assert {event["seq"] for event in events if event.get("wiped")} >= {2, 3}
        assert not any(event.get("values") for event in events if event.get("wiped"))
    assert json.loads(said("show", f"{saga.id}.1", "--json"))["wiped"] is True
    assert json.loads(said("prune", "--yes", "--json"))["wiped"] == []

    async def status() -> Saga:
        async with app.open_app(app.load(project.config), drive=False) as opened:
            return await opened.engine.saga(saga.id)

    assert saga_view(Look.at(anyio.run(status)), str)["wiped"] is True


@pytest.mark.slow
def test_nothing_is_pruned_where_nothing_says_how_long_to_keep(project: Project) -> None:
    project.saga(("book", "room"), abort=True)
    assert project.run("prune", "--yes").code == 2
    assert project.run("prune", "--older-than", "soon", "--yes").code == 2


@pytest.mark.slow
def test_with_a_key_no_value_stands_in_the_file_and_without_it_nothing_starts(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGA_KEY", KEY)
    configured(project, 'encryption_keys = ["${env:SAGA_KEY}"]')
    saga = project.saga(("pay", VALUE), abort=True)
    assert not found_on_disk(project)
    assert VALUE in project.run("show", saga.id, "--values", env={"SAGA_KEY": KEY}).out
    assert project.run("verify", env={"SAGA_KEY": KEY}).code == 0
    wrong = project.run("show", saga.id, env={"SAGA_KEY": OTHER})
    assert wrong.code == 1
    assert "encrypted with key" in wrong.err
    assert KEY not in wrong.err + wrong.out
    assert project.run("show", saga.id, env={"SAGA_KEY": "short"}).code == 2
    text = project.config.read_text(encoding="utf-8")
    project.config.write_text(text.replace('["${env:SAGA_KEY}"]', '["${env:NEW}", "${env:SAGA_KEY}"]'))
    both = {"SAGA_KEY": KEY, "NEW": OTHER}
    assert VALUE in project.run("show", saga.id, "--values", env=both).out
    project.config.write_text(text.replace("${env:SAGA_KEY}", KEY))
    assert project.run("list").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("key", [OTHER, ""])
def test_a_server_with_a_wrong_or_no_key_starts_nothing_and_says_so(
    project: Project, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("SAGA_KEY", KEY)
    plain = project.config.read_text(encoding="utf-8")
    configured(project, 'encryption_keys = ["${env:SAGA_KEY}"]')
    project.saga(("pay", "room"))
    if not key:
        project.config.write_text(plain)
    marker = project.folder / "opened.txt"
    (project.folder / "tools.py").write_text(
        (project.folder / "tools.py")
        .read_text(encoding="utf-8")
        .replace(
            "registry = ToolRegistry()",
            "from contextlib import asynccontextmanager\n\n\n@asynccontextmanager\nasync def shared():\n"
            '    (HERE / "opened.txt").write_text("")\n    yield {}\n\n\nregistry = ToolRegistry(lifespan=shared)',
        )
    )
    served = project.run("serve", env={"SAGA_KEY": key})
    assert (served.code, served.out) == (1, "")
    [said] = [line for line in served.err.splitlines() if "saga-mcp serve:" in line]
    assert "encrypted with key" in said
    assert "restart saga-mcp" in said
    assert KEY not in served.err
    assert not marker.exists()
    assert project.run("serve", env={"SAGA_KEY": KEY}).code == (0 if key else 1)
    assert marker.exists() == bool(key)


@pytest.mark.slow
def test_doctor_tells_which_keys_the_log_needs_and_what_is_in_clear(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys(**env: str) -> list[tuple[str, str]]:
        answer = project.run("doctor", "--json", env=env)
        assert KEY not in answer.out + answer.err
        return [(each["level"], each["says"]) for each in answer.json["checks"] if each["about"] == "keys"]

    monkeypatch.setenv("SAGA_KEY", KEY)
    project.saga(("book", "room"))
    assert keys() == [("ok", "values are not encrypted: 1 saga with values in clear")]
    configured(project, 'encryption_keys = ["${env:SAGA_KEY}"]')
    project.saga(("book", "hall"))
    (readable, clear) = keys(SAGA_KEY=KEY)
    assert readable[0] == "ok"
    assert clear == ("warn", "1 saga with values in clear, from before there was a key")
    (missing, _, _) = keys(SAGA_KEY=OTHER)
    assert missing[0] == "error"
    assert "no server starts" in missing[1]


def prunes(project: Project, capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any]:
    """Prune in this process, so that the database can be made to fail."""
    capfd.readouterr()
    code = here(project, "prune", "--yes", "--json", *options)
    return code, json.loads(capfd.readouterr().out)


def full(connection: Connection, *_: object) -> NoReturn:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise OperationalError(str(connection), None, error)


def test_what_went_is_told_though_its_space_cannot_be_given_back(
    project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [project.saga(("book", "room" * 40), abort=True).id for _ in range(4)]
    monkeypatch.setattr(keeping, "execute", full)
    code, said = prunes(project, capfd, "--older-than", "0s")
    assert (code, said["pruned"], said["left"], said["freed_bytes"]) == (0, gone, {}, 0)
    [remark] = said["remarks"]
    assert "was not given back" in remark


def test_what_went_is_told_though_the_log_fails_at_the_next(
    project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (project.saga(("book", "room"), abort=True).id for _ in range(3))
    real = keeping.check_saga

    def fails_at_the_second(connection: Connection, reads: Reads, rows: EventRows, saga_id: str) -> Checked | None:
        return full(connection) if saga_id == second else real(connection, reads, rows, saga_id)

    monkeypatch.setattr(keeping, "check_saga", fails_at_the_second)
    code, said = prunes(project, capfd, "--older-than", "0s")
    assert (code, said["pruned"], list(said["left"])) == (1, [first], [second])
    assert "no space left" in said["left"][second]
    assert any("1 more saga was not looked at" in remark for remark in said["remarks"])
    monkeypatch.undo()
    assert prunes(project, capfd, "--older-than", "0s")[1]["pruned"] == [second, third]


@pytest.mark.parametrize("reads", [False, True])
def test_a_large_log_is_overwritten_too_or_it_is_said_that_somebody_reads(
    project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, reads: bool
) -> None:
    saga = project.saga(("book", VALUE), abort=True)
    monkeypatch.setattr(keeping, "_CHEAP_BYTES", 0)
    with closing(sqlite3.connect(project.folder / "saga.db", isolation_level=None)) as other:
        if reads:
            other.execute("BEGIN")
        other.execute("SELECT count(*) FROM saga").fetchone()
        code, said = prunes(project, capfd, "--older-than", "0s")
        assert (code, said["pruned"], said["freed_bytes"]) == (0, [saga.id], 0)
        assert [("reads from" in remark) for remark in said["remarks"]] == [True] * reads
        files = [file for file in project.folder.glob("saga.db*") if file.is_file()]
        found = subprocess.run(["grep", "-qaF", VALUE, *files], check=False)  # noqa: S607 - any grep does
        assert (found.returncode == 0) == reads


@pytest.mark.slow
def test_a_key_that_nothing_needs_since_a_server_wiped_can_be_dropped(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGA_KEY", KEY)
    plain = project.config.read_text(encoding="utf-8")
    configured(project, 'encryption_keys = ["${env:SAGA_KEY}"]')
    saga = project.saga(("book", "room"), abort=True)

    async def wipe() -> None:
        async with app.open_keeping(app.load(project.config)) as log:
            await log.wipe(saga.id)

    anyio.run(wipe)
    assert project.run("prune", "--older-than", "1d", "--yes", env={"SAGA_KEY": KEY}).code == 0
    project.config.write_text(plain, encoding="utf-8")
    assert project.run("list").code == 0


@pytest.mark.slow
def test_alerts_that_nobody_will_deliver_go_with_their_saga(project: Project) -> None:
    text = project.config.read_text(encoding="utf-8")
    project.config.write_text(f'{text}\n[alerts]\nwebhook = "http://127.0.0.1:9/x"\n', encoding="utf-8")
    saga = project.saga(("book", "room"), abort=True)
    waits = project.run("prune", "--older-than", "0s", "--yes", "--json").json
    assert (waits["pruned"], list(waits["left"])) == ([], [saga.id])
    project.config.write_text(text, encoding="utf-8")
    gone = project.run("prune", "--older-than", "0s", "--yes")
    assert gone.code == 0
    assert "1 alert " in gone.out
    assert gone.last_line.startswith("1 saga removed")
    with closing(sqlite3.connect(project.folder / "saga.db")) as log:
        assert log.execute("SELECT count(*) FROM saga_outbox").fetchone() == (0,)
