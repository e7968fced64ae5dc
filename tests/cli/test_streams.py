"""Standard streams that are closed, full, narrow in what they hold, or interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.project import COMMAND, CTRL_C, ENVIRONMENT, Answer, Project, in_a_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells, devices and terminals")


def shell(project: Project, arguments: str, **env: str) -> Answer:
    """Run the command as a shell starts it, with its redirections."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{COMMAND[0]}" {arguments}'],
        cwd=project.folder,
        env={**ENVIRONMENT, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("command", ["list", "list --json", "show ID", "export ID", "check", "abort ID --yes"])
def test_an_answer_that_cannot_be_written_is_said_in_one_line(project: Project, command: str) -> None:
    saga = project.saga(("book", "room"))
    answer = shell(project, f"{command.replace('ID', saga.id)} > /dev/full")
    assert answer.code == 1
    said = "The answer cannot be written to stdout: No space left on device. What was recorded stays recorded."
    beside = {"tools are being imported", "cancelling"}
    lines = [line for line in answer.err.splitlines() if line not in beside and not line.startswith("... ")]
    assert lines == [said]


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_nobodys_file(project: Project, closed: str) -> None:
    """Without care the saga log gets the number of a closed stdout, and what tools print is written into it."""
    saga = project.saga(("book", "room"))
    assert shell(project, f"list {closed}").code == 0
    assert shell(project, f"abort {saga.id} --yes {closed}").code == 0
    assert project.world == []
    assert project.run("list").out.splitlines()[1].startswith(f"{saga.id}  compensated")


@pytest.mark.slow
def test_what_an_encoding_cannot_hold_is_written_out(project: Project) -> None:
    saga = project.saga(("book", "room"), purpose="une chambre \u00e0 \u6771\u4eac")
    for command in ("list", f"show {saga.id}"):
        answer = shell(project, command, PYTHONIOENCODING="ascii")
        assert answer.code == 0, answer.err
        assert r"une chambre \xe0 \u6771\u4eac" in answer.out


@pytest.mark.slow
@pytest.mark.parametrize("typed", [CTRL_C, b"\x04", b"n\n"], ids=["ctrl-c", "end-of-input", "no"])
@pytest.mark.parametrize("command", ["abort", "recover"])
def test_a_question_that_is_not_answered_with_yes_changes_nothing(project: Project, command: str, typed: bytes) -> None:
    """Under an event loop the first Ctrl-C is only taken note of: the question stayed."""
    project.trouble("tell-fails")
    saga = project.saga(("ship", "parcel"), ("tell", "customer")) if command == "recover" else None
    saga = saga or project.saga(("book", "room"))
    project.run("retry", f"{saga.id}.2", "--yes", "--detach")
    arguments = ["abort", saga.id] if command == "abort" else ["recover"]
    code, screen = in_a_terminal(project, *arguments, typed=typed, after=b"[y/N]")
    assert code == 1, screen
    assert screen.rstrip().endswith("Nothing was changed.")
    assert "Traceback" not in screen


@pytest.mark.slow
def test_an_interrupted_wait_is_an_answer_for_programs_too(project: Project) -> None:
    tools = project.folder / "tools.py"
    tools.write_text(tools.read_text().replace('print("cancelling")', 'print("cancelling"); await forever()'))
    with tools.open("a") as file:
        file.write("\n\nasync def forever():\n    import anyio\n    await anyio.sleep_forever()\n")
    saga = project.saga(("book", "room"))
    with subprocess.Popen(
        [*COMMAND, "abort", saga.id, "--yes", "--wait", "300", "--json"],
        cwd=project.folder,
        env={**ENVIRONMENT, "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        out, err = _interrupted(process, after=b"cancelling")
    assert process.returncode == 130, err
    assert re.search(r'"code": "interrupted"', out)
    assert "compensating" in project.run("list").out


def _interrupted(process: subprocess.Popen[bytes], *, after: bytes) -> tuple[str, str]:
    """What a process says once it is interrupted; if it does not end by that, the error says where it was."""
    assert process.stderr is not None
    try:
        while line := process.stderr.readline():
            if after in line:
                break
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # Python's fault handler writes where each thread is
        out, err = process.communicate()
    except BaseException:
        process.kill()
        raise
    return out.decode(), err.decode()


@pytest.mark.slow
def test_of_a_long_saga_the_newest_steps_are_shown(project: Project) -> None:
    saga = project.saga(*(("book", f"room {number}") for number in range(5)))
    answer = project.run("show", saga.id, "--limit", "2")
    assert "... 3 older steps: --limit 5" in answer.out
    steps = [line.split()[0] for line in answer.out.splitlines() if "shop.book" in line]
    assert steps == ["4", "5"]
    assert len(project.run("show", saga.id, "--limit", "2", "--json").json["saga"]["steps"]) == 5


@pytest.mark.slow
def test_that_nothing_goes_on_is_said_where_something_should(project: Project) -> None:
    kept = project.saga(("book", "room"))
    project.trouble("tell-fails")
    stuck = project.saga(("ship", "parcel"), ("tell", "customer"))
    assert "No server of the realm shop is alive.\n" in project.run("list").out
    project.run("retry", f"{stuck.id}.2", "--yes", "--detach")
    going = "is alive: nothing goes on until one starts, or `saga-mcp recover`."
    assert going in project.run("list").out
    assert going in project.run("show", stuck.id).out
    assert going not in project.run("show", kept.id).out
