"""The real command in processes of its own: exit codes, JSON, terminals, pipes, living servers (DESIGN.md 5.4)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.cli.project import COMMAND, ENVIRONMENT, Project, here, in_a_terminal

from saga_mcp.cli import commands
from saga_mcp.domain.ids import saga_id

NOBODY = saga_id(bytes(16))


def test_a_saga_is_seen_undone_and_summed_up(project: Project) -> None:
    saga = project.saga(("book", "room"), ("pay", "bill"), purpose="a \x1b[31mtrip")

    listed = project.run("list")
    assert listed.code == 0
    assert f"{saga.id}  active" in listed.out
    assert r"a \x1b[31mtrip" in listed.out
    assert "No server of the realm shop is alive" in listed.out
    assert listed.last_line == f"1 saga: 1 active, in {project.folder / 'saga.db'}"
    assert "tools are being imported" not in listed.out

    shown = project.run("show", saga.id.upper(), "--json").json
    assert [(step["tool"], step["state"]) for step in shown["saga"]["steps"]] == [
        ("shop.book", "succeeded"),
        ("shop.pay", "succeeded"),
    ]

    aborted = project.run("abort", saga.id, "--note", "too dear", "--by", "ada", "--yes")
    assert aborted.code == 0, aborted
    assert "cancelling" not in aborted.out
    assert aborted.last_line == f"{saga.id}  compensated: 2 undone, 0 open"
    assert project.world == []

    again = project.run("abort", saga.id, "--yes", "--json")
    assert (again.code, again.json["reached"], again.json["saga"]["state"]) == (0, True, "compensated")

    refused = project.run("commit", saga.id, "--yes")
    assert refused.code == 1
    assert "was aborted (by an operator (ada))" in refused.err


@pytest.mark.slow
def test_the_timeline_is_an_audit_trail_without_values(project: Project) -> None:
    project.trouble("book-fails")
    saga = project.saga(("pay", "SECRET-bill"), ("book", "room"))

    text = project.run("show", saga.id, "--timeline")
    lines = [line for line in text.out.splitlines() if "+00:00" in line or "  STEP_" in line or "  UNDO_" in line]
    assert [line.split("  ")[1] for line in lines] == [
        "SAGA_OPENED",
        "STEP_INTENDED",
        "STEP_SUCCEEDED",
        "STEP_INTENDED",
        "STEP_FAILED",
        "ABORT_REQUESTED",
        "UNDO_INTENDED",
        "UNDO_SUCCEEDED",
        "ROLLBACK_FINISHED",
    ]
    assert "the whole saga; because of step 2 shop.book" in text.out
    assert r"NoEffect: no room \x1b[31m for room" in text.out
    assert "undo shop.refund" in text.out
    assert "SECRET" not in text.out
    assert text.last_line == "compensated: 1 undone, 1 without effect, 0 open"

    found = project.run("show", saga.id, "--timeline", "--json").json["timeline"]
    assert [event["event"] for event in found][-3:] == ["UNDO_INTENDED", "UNDO_SUCCEEDED", "ROLLBACK_FINISHED"]
    assert (found[1]["seq"], found[1]["step"], found[1]["tool"]) == (2, 1, "shop.pay")
    assert "SECRET" not in json.dumps(found)

    whole = project.run("show", saga.id, "--timeline", "--values", "--json").json["timeline"]
    assert whole[1]["values"]["plan"]["args"] == {"name": "SECRET-bill"}
    assert whole[2]["values"]["result"] == {"receipt": "r-SECRET-bill"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [["list"], ["attention"], ["show", NOBODY], ["abort", NOBODY, "--yes"]])
def test_a_log_that_is_not_there_is_no_empty_list(command: list[str], project: Project) -> None:
    answer = project.run(*command)
    assert (answer.code, answer.out) == (1, "")
    assert f"There is no saga log at {project.folder / 'saga.db'}" in answer.err
    assert not (project.folder / "saga.db").exists()
    assert not (project.folder / "saga.db.owners").exists()
    assert project.run(*command, "--json").json["error"]["code"] == "no_saga_log"


@pytest.mark.parametrize(
    ("arguments", "code", "name", "hint"),
    [
        (["lst"], 2, "usage", "Did you mean 'list'?"),
        (["list", "--opne"], 2, "usage", "--open"),
        (["abort"], 2, "usage", "Missing argument"),
        (["abort", NOBODY], 2, "usage", "pass --yes"),
        (["abort", f"{NOBODY}.1", "--yes"], 2, "usage", "this takes the saga"),
        (["retry", NOBODY, "--yes"], 2, "usage", "this takes an item"),
        (["resolve", f"{NOBODY}.1", "--yes"], 2, "usage", "exactly one of --landed"),
        (["resolve", f"{NOBODY}.1", "--landed", "--absent", "--yes"], 2, "usage", "exactly one of --landed"),
        (["resolve", f"{NOBODY}.1", "--absent", "--result", "1", "--yes"], 2, "usage", "--result goes with --landed"),
        (["resolve", f"{NOBODY}.1", "--landed", "--result", "{", "--yes"], 2, "usage", "--result is not JSON"),
        (["show", "sg-1"], 1, "invalid_arguments", "mistyped"),
        (["show", NOBODY], 1, "saga_not_found", "saga-mcp list"),
        (["commit", NOBODY, "--yes"], 1, "saga_not_found", "saga-mcp list"),
    ],
)
def test_what_is_wrong_has_an_exit_code_a_name_and_a_next_step(
    arguments: list[str], code: int, name: str, hint: str, project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.saga(("book", "room"))
    capfd.readouterr()
    assert here(project, *arguments, "--json") == code
    error = json.loads(capfd.readouterr().out)["error"]
    assert error["code"] == name
    assert hint in error["message"]


def test_errors_for_people_go_to_stderr_in_words(project: Project) -> None:
    answer = project.run("lst")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "No such command 'lst'. Did you mean 'list'? See `saga-mcp --help`.\n"


@pytest.mark.slow
def test_a_saga_of_another_realm_is_not_touched(project: Project) -> None:
    saga = project.saga(("book", "room"))
    config = project.config.read_text()
    project.config.write_text(config.replace('"shop"', '"other"', 1))
    assert project.run("abort", saga.id, "--yes").code == 1
    assert project.run("list").last_line.startswith("0 sagas")
    assert project.world == ["room"]


@pytest.mark.slow
def test_the_config_is_named_before_or_after_the_command_or_by_the_environment(
    project: Project, tmp_path: Path
) -> None:
    project.saga(("book", "room"))
    elsewhere = Project(tmp_path)
    config = str(project.config)
    missing = elsewhere.run("list", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (2, "config_missing")
    assert "saga-mcp init --python" in missing.json["error"]["message"]
    for answer in (
        elsewhere.run("--config", config, "list", "--json"),
        elsewhere.run(f"--config={config}", "--json", "list"),
        elsewhere.run("list", "--config", config, "--json"),
        elsewhere.run("list", "--json", env={"SAGA_MCP_CONFIG": config}),
    ):
        assert (answer.code, answer.json["total"]) == (0, 1)


@pytest.mark.slow
def test_the_status_page_says_what_to_do_next(project: Project, tmp_path: Path) -> None:
    fresh = project.run()
    assert fresh.code == 0
    assert "(not there yet)" in fresh.out
    assert "none of this realm is alive" in fresh.out
    assert fresh.last_line == "0 open sagas, 0 items for a person"

    project.trouble("cancel-asks")
    project.saga(("book", "room"), abort=True)
    assert "saga-mcp attention" in project.run().out
    page = project.run("--json").json
    assert (page["realm"], page["open_sagas"], page["items"], page["servers"]) == ("shop", 1, 1, [])

    nothing = Project(tmp_path).run()
    assert nothing.code == 2
    assert "saga-mcp init --python" in nothing.err


@pytest.mark.slow
def test_with_a_living_server_a_command_appends_and_the_server_drives(project: Project) -> None:
    saga = project.saga(("book", "room"), ("pay", "bill"))
    with project.serving() as server:
        page = project.run("--json").json
        assert [each["pid"] for each in page["servers"]] == [server.pid]

        answer = project.run("abort", saga.id, "--yes", "--wait", "20", "--json")
        assert (answer.code, answer.json["driven_by"]) == (0, "server")
        assert answer.json["summary"] == "compensated: 2 undone, 0 open"
        assert project.world == []
    owners = [event["facts"] for event in project.run("show", saga.id, "--timeline", "--json").json["timeline"]]
    drivers = {facts["owner"] for facts in owners[-8:] if "owner" in facts}
    assert drivers == {page["servers"][0]["owner"]}


@pytest.mark.slow
def test_a_server_of_another_realm_drives_nothing_here(project: Project) -> None:
    saga = project.saga(("book", "room"))
    config = project.config.read_text()
    project.config.write_text(config.replace('"shop"', '"other"', 1))
    with project.serving():
        project.config.write_text(config)
        answer = project.run("abort", saga.id, "--yes", "--json")
    assert (answer.code, answer.json["driven_by"], project.world) == (0, "this command", [])


@pytest.mark.slow
def test_detached_it_is_only_written_down_and_the_next_server_does_it(project: Project) -> None:
    saga = project.saga(("book", "room"))
    answer = project.run("abort", saga.id, "--yes", "--detach", "--json")
    assert (answer.code, answer.json["driven_by"], answer.json["at_rest"]) == (0, "nobody", False)
    assert project.world == ["room"]
    assert "the next one that starts goes on with it" in project.run("abort", saga.id, "--yes", "--detach").out

    with project.serving():
        assert project.run("abort", saga.id, "--yes", "--wait", "20").last_line.endswith("1 undone, 0 open")
    assert project.world == []


@pytest.mark.slow
def test_an_abort_that_gets_stuck_fails_and_says_where(project: Project) -> None:
    project.trouble("cancel-asks")
    saga = project.saga(("book", "room"))
    answer = project.run("abort", saga.id, "--yes")
    assert answer.code == 1
    assert "saga-mcp attention" in answer.out
    assert answer.last_line == f"{saga.id}  needs_attention: 0 undone, 1 open"

    shown = project.run("show", f"{saga.id}.1")
    assert shown.code == 0
    assert "cancel room by telephone" in shown.out
    assert "It holds up" not in shown.out
    assert f"saga-mcp resolve {saga.id}.1 --undone" in shown.out
    assert shown.last_line == "needs_attention: 0 undone, 1 open"


@pytest.mark.slow
def test_a_saga_whose_events_cannot_be_read_is_named_and_hides_no_other(project: Project) -> None:
    project.trouble("cancel-asks")
    bad, good = project.saga(("book", "room"), abort=True), project.saga(("book", "other"), abort=True)
    with sqlite3.connect(project.folder / "saga.db") as raw:
        raw.execute("UPDATE saga_event SET type = 'FromTheFuture' WHERE saga_id = ? AND seq = 3", (bad.id,))
    raw.close()
    items = project.run("attention", "--json").json["items"]
    assert {each["item"]: each["kind"] for each in items} == {
        f"{bad.id}.0": "quarantine",
        f"{good.id}.1": "manual_undo",
    }
    shown = project.run("show", bad.id, "--json")
    assert (shown.code, shown.json["error"]["code"]) == (1, "saga_quarantined")
    assert [event["event"] for event in shown.json["error"]["timeline"]] == ["SAGA_OPENED", "STEP_INTENDED"]
    text = project.run("show", bad.id)
    assert "STEP_INTENDED" in text.out
    assert "FromTheFuture" in text.err


@pytest.mark.parametrize("command", [["list"], ["attention"], ["abort", NOBODY, "--yes"], []])
def test_a_damaged_log_is_named_and_left_alone(
    command: list[str], project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    (project.folder / "saga.db").write_bytes(b"not a database" * 500)
    assert here(project, *command, "--json") == 1
    error = json.loads(capfd.readouterr().out)["error"]
    assert error["code"] == "log_unavailable"
    assert str(project.folder / "saga.db") in error["message"]
    assert (project.folder / "saga.db").read_bytes().startswith(b"not a database")


@pytest.mark.slow
def test_a_person_is_asked_first(project: Project) -> None:
    saga = project.saga(("book", "room"))
    code, screen = in_a_terminal(project, "abort", saga.id, typed=b"n\n")
    assert (code, project.world) == (1, ["room"])
    assert f"Undo all 1 steps of {saga.id}? [y/N]" in screen.replace("\r\n", "")
    assert "Nothing was changed." in screen

    code, screen = in_a_terminal(project, "abort", saga.id, typed=b"y\n")
    assert (code, project.world) == (0, []), screen


def test_a_narrow_terminal_cuts_nothing_off(project: Project) -> None:
    saga = project.saga(("book", "room"), purpose="a trip to the seaside")
    code, screen = in_a_terminal(project, "list", columns=45)
    assert code == 0
    assert f"SAGA     {saga.id}\r\nSTATE    active\r\n" in screen
    assert "PURPOSE  a trip to the seaside\r\n" in screen


@pytest.mark.slow
def test_colour_is_for_terminals_that_want_it(project: Project) -> None:
    project.saga(("book", "room"))
    assert "\x1b[" in in_a_terminal(project, "list")[1]
    assert "\x1b[" not in project.run("list").out
    assert "\x1b[" not in in_a_terminal(project, "list", env={"NO_COLOR": "1"})[1]


@pytest.mark.parametrize("buffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_a_reader_that_closes_the_pipe_is_no_error(buffered: dict[str, str], project: Project) -> None:
    saga = project.saga(("book", "room"))
    process = subprocess.Popen(
        [*COMMAND, "show", saga.id, "--timeline"],
        cwd=project.folder,
        env={**ENVIRONMENT, **buffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 141
    assert b"Traceback" not in err
    assert b"Exception" not in err


@pytest.mark.slow
@pytest.mark.case(100)
def test_ctrl_c_ends_a_wait_soon_and_what_was_recorded_stays(project: Project) -> None:
    saga = project.saga(("book", "room"))
    tools = project.folder / "tools.py"
    tools.write_text(tools.read_text().replace('print("cancelling")', 'await __import__("anyio").sleep(60)'))
    process = subprocess.Popen(
        [*COMMAND, "abort", saga.id, "--yes"],
        cwd=project.folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    while b"compensating" not in line:
        assert line
        line = process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"What was recorded stays recorded" in err
    assert b"Traceback" not in err
    assert project.run("list", "--json").json["sagas"][0]["phase"] == "compensating"


@pytest.mark.slow
@pytest.mark.case(100)
def test_an_undo_that_hangs_in_a_thread_does_not_keep_the_command(project: Project) -> None:
    saga = project.saga(("book", "room"))
    tools = project.folder / "tools.py"
    hanging = (
        tools.read_text().replace("async def cancel", "def cancel").replace('print("cancelling")', "time.sleep(600)")
    )
    tools.write_text(hanging.replace("import sys\n", "import sys\nimport time\n"))
    began = time.monotonic()
    answer = project.run("abort", saga.id, "--yes", "--wait", "0.5")
    assert answer.code == 1
    assert "not at rest yet" in answer.out
    assert time.monotonic() - began < 60  # and not as long as the thread hangs


@pytest.mark.parametrize("command", ["serve", "check", "init", "demo", "list", "show", "attention", "commit", "abort"])
def test_help_teaches_with_an_example(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert commands.run([command, "--help"]) == 0
    assert "Example" in capfd.readouterr().out


def test_it_says_which_version_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    assert commands.run(["--version"]) == 0
    assert capfd.readouterr().out == f"saga-mcp {version('saga-mcp')}\n"


def test_help_lists_every_command(tmp_path: Path) -> None:
    answer = Project(tmp_path).run("--help")
    assert answer.code == 0
    for name in ("serve", "check", "init", "demo", "list", "show", "attention", "commit", "abort", "retry", "resolve"):
        assert f"\n  {name} " in answer.out


@pytest.mark.slow
def test_a_command_that_drives_does_not_pass_for_a_server(project: Project) -> None:
    """Another command would leave its work to a process that is about to end."""
    saga, other = project.saga(("book", "room")), project.saga(("book", "other"))
    tools = project.folder / "tools.py"
    slow = '(HERE / "slow").write_text(""); await __import__("anyio").sleep(20 * (name == "room"))'
    tools.write_text(tools.read_text().replace('print("cancelling")', slow))
    with subprocess.Popen(
        [*COMMAND, "abort", saga.id, "--yes"], cwd=project.folder, env=ENVIRONMENT, stderr=subprocess.PIPE
    ) as driving:
        assert driving.stderr is not None
        while b"compensating" not in driving.stderr.readline():
            assert driving.poll() is None
        answer = project.run("abort", other.id, "--yes", "--json")
        driving.send_signal(signal.SIGINT)
        driving.communicate(timeout=10)
    assert (answer.code, answer.json["driven_by"]) == (0, "this command")
