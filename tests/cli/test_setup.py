"""The first minutes: `init`, `check`, `demo`, and a `serve` that a client starts (WORDING.md)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.project import COMMAND, ENVIRONMENT, Project

WRITES_SQLITE_HERE = '\ndatabase = "sqlite:///saga.db"\n'


def test_what_init_writes_runs_as_it_says(tmp_path: Path) -> None:
    folder = Project(tmp_path / "my notes")
    folder.folder.mkdir()
    answer = folder.run("init", "--python", "--json")
    assert answer.code == 0, answer
    written = answer.json
    assert written["written"] == [str(folder.config), str(folder.folder / "tools.py")]
    assert written["realm"].startswith("my-notes-")
    entry = written["client_config"]["mcpServers"]["saga"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-2:] == ["--config", str(folder.config)]

    # The test's log does not belong in the data folder of whoever runs the tests.
    config = folder.config.read_text()
    folder.config.write_text(config.replace("\n\n[python", f"{WRITES_SQLITE_HERE}\n[python"))
    checked = folder.run("check", "--json").json
    assert (checked["errors"], checked["warnings"], checked["realm"]) == ([], [], written["realm"])
    assert {tool["tool"]: (tool["kind"], tool["undo"]) for tool in checked["tools"]} == {
        "notes.add_note": ("compensable", ["notes.remove_note"]),
        "notes.list_notes": ("read_only", []),
    }

    saga = _call(entry["command"], entry["args"], "add_note", {"title": "milk", "text": "two litres"})
    assert (folder.folder / "notes" / "milk.txt").read_text().startswith("two litres")
    assert folder.run("abort", saga, "--yes").code == 0
    assert not (folder.folder / "notes" / "milk.txt").exists()


def _call(command: str, arguments: list[str], tool: str, given: dict[str, str]) -> str:
    """Start the server as a client would, call a tool, and return the saga's id."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": given}},
    ]
    with subprocess.Popen(
        [command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(f"{json.dumps(message)}\n" for message in messages).encode())
        server.stdin.flush()
        server.stdout.readline()
        reply = json.loads(server.stdout.readline())
        server.stdin.close()
        server.wait(timeout=20)
    assert not reply["result"].get("isError"), reply
    saga_id: str = reply["result"]["_meta"]["saga"]["id"]
    return saga_id


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "tools.py").write_text("mine")
    answer = project.run("init", "--python")
    assert answer.code == 1
    assert "Nothing was written" in answer.err
    assert sorted(os.listdir(tmp_path)) == ["tools.py"]  # noqa: PTH208 - names are the point
    assert (tmp_path / "tools.py").read_text() == "mine"


def test_init_says_what_to_do_next_with_absolute_paths(tmp_path: Path) -> None:
    answer = Project(tmp_path).run("init", "--python", "new/folder")
    assert answer.code == 0
    config = tmp_path / "new" / "folder" / "saga.toml"
    shown = json.loads(answer.out[answer.out.index("{") : answer.out.rindex("}") + 1])
    assert shown["mcpServers"]["saga"]["args"] == ["serve", "--config", str(config)]
    assert f"check --config {config}" in answer.out


@pytest.mark.slow
def test_check_lists_every_problem_with_its_key(project: Project) -> None:
    config = project.config.read_text().replace("[saga]", '[saga]\non_eror = "abort"')
    project.config.write_text(f"{config}[upstream]\n")
    answer = project.run("check")
    assert answer.code == 2
    assert answer.out.startswith("saga.toml: 2 errors, ")
    assert "saga.on_eror" in answer.out
    assert "did you mean on_error?" in answer.out
    found = project.run("check", "--json")
    assert found.code == 2
    assert {each["key"] for each in found.json["errors"]} == {"saga.on_eror", "upstream"}


@pytest.mark.slow
def test_check_lists_the_pairs_and_says_which_log(project: Project) -> None:
    answer = project.run("check")
    assert answer.code == 0
    lines = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if line.startswith("shop.")}
    assert lines["shop.book"] == ["book", "compensable", "-", "shop.cancel"]
    assert lines["shop.ship"] == ["ship", "pivot", "-", "none:", "point", "of", "no", "return"]
    assert str(project.folder / "saga.db") in answer.out
    assert answer.out.startswith("saga.toml: 0 errors, 1 warning\n")
    assert "the undo of pay names result" in answer.out
    assert not (project.folder / "saga.db").exists()


def test_a_pair_that_does_not_fit_is_found(project: Project) -> None:
    tools = project.folder / "tools.py"
    tools.write_text(tools.read_text().replace("async def cancel(name: str)", "async def cancel(nam: str)"))
    answer = project.run("check")
    assert answer.code == 2
    assert "python.shop" in answer.out
    assert "nam" in answer.out


def test_the_demonstration_undoes_what_it_shows(tmp_path: Path) -> None:
    began = time.monotonic()
    answer = Project(tmp_path).run("demo", "--json")
    assert time.monotonic() - began < 20  # five seconds on a machine that does nothing else
    kept, undone = answer.json["sagas"]
    assert (kept["summary"], undone["summary"]) == (
        "committed: 2 done, 0 open",
        "compensated: 1 undone, 1 without effect, 0 open",
    )
    assert kept["world"] == undone["world"] == ["room for Ada, 2 nights", "180 euros from valid"]
    assert [event["event"] for event in undone["timeline"]][-3:] == [
        "UNDO_INTENDED",
        "UNDO_SUCCEEDED",
        "ROLLBACK_FINISHED",
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.case(99, 100)
@pytest.mark.parametrize("end", ["eof", "sigterm"])
def test_an_idle_server_ends_soon_and_well(end: str, project: Project) -> None:
    with project.serving() as server:
        began = time.monotonic()
        if end == "sigterm":
            server.send_signal(signal.SIGTERM)
        else:
            assert server.stdin is not None
            server.stdin.close()
        assert server.wait(timeout=10) == 0
        assert time.monotonic() - began < 5  # two seconds on a machine that does nothing else


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--confg", "x"], "--confg"), (["--config", "nowhere.toml"], "nowhere.toml"), (["--log-level", "loud"], "loud")],
)
def test_a_server_that_cannot_serve_says_why_on_stderr_only(arguments: list[str], said: str, project: Project) -> None:
    answer = project.run("serve", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_a_server_whose_tools_cannot_be_opened_says_so_and_ends(project: Project) -> None:
    tools = project.folder / "tools.py"
    broken = "def no_bank():\n    raise ConnectionError('closed')\n\n\nregistry = ToolRegistry(no_bank)"
    tools.write_text(tools.read_text().replace("registry = ToolRegistry()", broken))
    answer = project.run("serve")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.rstrip().splitlines()[-1].startswith("saga-mcp serve: the lifespan of python.shop failed")


def test_a_server_with_a_bad_config_lists_everything_and_serves_nothing(project: Project) -> None:
    project.config.write_text(project.config.read_text().replace("[saga]", "[saga]\nx = 1\ny = 2"))
    answer = project.run("serve")
    assert (answer.code, answer.out) == (2, "")
    assert "saga.x" in answer.err
    assert "saga.y" in answer.err


def test_serve_needs_neither_typer_nor_rich_of_its_own(project: Project) -> None:
    """DESIGN.md section 8; structlog imports Rich by itself, so only the command's own modules can be watched."""
    project.saga(("book", "room"))
    script = (
        "import sys; from saga_mcp.cli import main; sys.argv = ['saga-mcp', 'serve']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'typer', 'alembic', 'saga_mcp.cli.commands', 'saga_mcp.cli.output'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy), file=sys.stderr)"
    )
    (project.folder / "start.py").write_text(script)
    done = subprocess.run(
        [Path(COMMAND[0]).with_name("python"), "start.py"],
        cwd=project.folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "heavy: []" in done.stderr
