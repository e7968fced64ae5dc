"""`doctor`: what is wrong is named, with the next move (DESIGN.md 5.4)."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.project import Project

from saga_mcp.domain.saga_decisions import request_abort
from saga_mcp.log.owners import directory_of
from saga_mcp.log.sql.inspect import inspect
from saga_mcp.log.sql.tables import EPOCH


def found(project: Project, *, code: int) -> dict[str, list[tuple[str, str]]]:
    """Level and next move of each check, by what it is about."""
    answer = project.run("doctor", "--json")
    assert answer.code == code, answer
    checks: list[dict[str, Any]] = answer.json["checks"]
    assert answer.json["errors"] == sum(check["level"] == "error" for check in checks)
    assert all(check["says"] and (check["do"] or check["level"] == "ok") for check in checks)
    by: dict[str, list[tuple[str, str]]] = {}
    for check in checks:
        by.setdefault(check["about"], []).append((check["level"], check["do"]))
    return by


def raw(project: Project, statement: str) -> None:
    with closing(sqlite3.connect(project.folder / "saga.db")) as log, log:
        log.execute(statement)


@pytest.mark.slow
def test_all_is_well_while_a_server_lives(project: Project) -> None:
    project.saga(("book", "room"))
    with project.serving() as server:
        page = project.run("doctor")
        assert page.code == 0, page
        assert f"pid {server.pid}, up " in page.out
    assert page.last_line.startswith("0 errors, ")
    troubled = [line.split()[1] for line in page.out.splitlines() if line.startswith(("warn", "error"))]
    assert set(troubled) <= {"tools"}  # a pair of this project's is worth a warning
    assert "python.shop is imported: 6 tools, 6 offered" in page.out
    assert f"{project.folder / 'saga.db'}: schema {EPOCH}, journal wal" in page.out
    assert "1 open" in page.out
    assert "tools are being imported" not in page.out


def test_without_a_server_what_is_due_and_what_waits_is_named(project: Project) -> None:
    project.trouble("cancel-impossible")
    project.saga(("book", "room"), abort=True)
    left = project.saga(("book", "room"))
    project.on_engine(
        lambda opened: opened.engine.decide_item(left.id, lambda now, d: request_abort(now, d, cause="agent")),
        drive=False,
    )
    checks = found(project, code=0)
    assert checks["server"] == [("warn", "start your MCP client, or run `saga-mcp recover`")]
    assert checks["sagas"] == [("ok", ""), ("warn", "saga-mcp recover"), ("warn", "saga-mcp attention")]


def test_a_log_that_is_not_there_yet_is_no_error(project: Project) -> None:
    assert found(project, code=0)["log"] == [("ok", "")]
    assert not (project.folder / "saga.db").exists()
    assert not (project.folder / "saga.db.owners").exists()


def test_every_problem_of_the_config_is_an_error(project: Project, tmp_path: Path) -> None:
    project.config.write_text(project.config.read_text() + '\n[tools."shop.nothing"]\n\n[sagas]\n')
    checks = found(project, code=1)
    assert [each for each in checks["config"] if each[0] == "error"] == [("error", f"edit {project.config}")] * 2
    nowhere = Project(tmp_path).run("doctor", "--json")
    assert (nowhere.code, nowhere.json["checks"][1]["about"], nowhere.json["errors"]) == (1, "config", 1)


def test_tools_that_cannot_be_imported_are_an_error(project: Project) -> None:
    (project.folder / "tools.py").write_text("import nothing_of_this_name\n")
    answer = project.run("doctor")
    assert answer.code == 1
    assert "nothing_of_this_name" in answer.out


@pytest.mark.parametrize(
    ("statement", "level", "move"),
    [
        ("UPDATE saga_log_meta SET epoch = 99", "error", "upgrade saga-mcp"),
        ("UPDATE saga_log_meta SET epoch = epoch - 1", "warn", "close servers of the older version"),
        ("PRAGMA application_id = 7", "error", "set [saga] database to a file of its own"),
        ("DROP TABLE saga_log_meta", "error", "never delete it"),
    ],
)
def test_a_log_that_this_version_cannot_use_is_told_by_its_kind(
    statement: str, level: str, move: str, project: Project
) -> None:
    project.saga(("book", "room"))
    raw(project, statement)
    ((said, do),) = found(project, code=int(level == "error"))["log"][:1]
    assert said == level
    assert move in do


def test_a_damaged_file_is_an_error(project: Project) -> None:
    project.saga(("book", "room"))
    log = project.folder / "saga.db"
    with log.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    assert found(project, code=1)["log"][0][0] == "error"


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_a_log_that_others_can_read_is_a_warning(project: Project) -> None:
    project.saga(("book", "room"))
    log = project.folder / "saga.db"
    log.chmod(0o644)
    assert found(project, code=0)["log"][0] == ("warn", f"chmod 600 {log}")


def test_a_folder_that_is_not_there_is_an_error(project: Project) -> None:
    project.config.write_text(project.config.read_text().replace("///saga.db", "///volume/saga.db"))
    assert found(project, code=1)["log"] == [("error", "make it; if it is on a volume, mount that first")]


def test_a_network_file_system_and_a_taken_lock_are_seen(project: Project) -> None:
    project.saga(("book", "room"))
    log = project.folder / "saga.db"
    assert inspect(log, file_system_of=lambda _: "nfs4").on_network
    with closing(sqlite3.connect(log, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert inspect(log).locked
    seen = inspect(log)
    assert (seen.locked, seen.damage, seen.epoch) == (False, "", EPOCH)


def test_locks_of_dead_processes_are_counted(project: Project) -> None:
    project.saga(("book", "room"))
    (directory_of(project.folder / "saga.db") / "own-dead.lock").write_text("{}")
    assert inspect(project.folder / "saga.db").stale_owners == 1
    assert "1 lock of dead processes" in project.run("doctor").out


@pytest.mark.slow
def test_a_log_that_was_deleted_under_a_server_is_an_error(project: Project) -> None:
    project.saga(("book", "room"))
    with project.serving() as server:
        give_up_at = time.monotonic() + 20
        while not (project.folder / "saga.db-shm").exists():  # until then it does not use it
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        for file in project.folder.glob("saga.db*"):
            if file.is_file():
                file.unlink()
        assert found(project, code=1)["log"] == [
            ("error", "put it back, or restore a backup; its open sagas are in it")
        ]
        assert "MOVED OR DELETED" in project.run().out
        listed = project.run("list")
        assert listed.code == 1
        assert f"was moved or deleted while a living process (pid {server.pid}) was using it" in listed.err
        assert not (project.folder / "saga.db").exists()


@pytest.mark.slow
def test_open_sagas_of_a_realm_that_nobody_drives_are_named(project: Project) -> None:
    project.saga(("book", "room"))
    project.config.write_text(project.config.read_text().replace('name = "shop"', 'name = "store"', 1))
    assert ("warn", "if this realm was renamed: its old name, as name under [saga]") in found(project, code=0)["sagas"]
    for command in ("doctor", "list"):
        assert "1 open saga of realm shop, which nobody drives" in project.run(command).out


@pytest.mark.slow
def test_a_check_that_fails_hides_none_of_the_others(project: Project) -> None:
    project.trouble("cancel-impossible")
    project.saga(("book", "room"), abort=True)
    raw(project, "DROP TABLE saga_pause")
    raw(project, "ALTER TABLE saga_outbox RENAME COLUMN parked TO other")
    checks = found(project, code=1)
    assert [level for level, _ in checks["sagas"]] == ["ok", "warn"]
    assert "error" in {level for about in ("log", "paused", "alerts") for level, _ in checks.get(about, [])}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="other systems keep another account of a file's size")
def test_the_size_of_a_log_is_told_with_what_lies_beside_it(project: Project) -> None:
    project.saga(("book", "room"))
    with project.serving(), closing(sqlite3.connect(project.folder / "saga.db")) as log:
        log.execute("PRAGMA wal_autocheckpoint = 0")
        with log:
            log.execute("CREATE TABLE large AS SELECT randomblob(2000000) AS bytes")
        seen = inspect(project.folder / "saga.db")
        assert seen.size_bytes > 2_000_000 > (project.folder / "saga.db").stat().st_size
