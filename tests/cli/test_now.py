"""`show --diff --now`: what is there now, next to what a step found and what it left behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from tests.e2e.product import BOUND_S, COMMAND

from saga_mcp import app
from saga_mcp.engine.port import Caller


class Desk:
    """A folder of files, and the tools that write them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, given in (("desk.py", "desk.py"), ("desk.toml", "saga.toml")):
            shutil.copy(Path(__file__).parents[1] / "captures" / name, folder / given)
        self.config = folder / "saga.toml"
        self.config.write_text(
            self.config.read_text().replace('name = "desk"', 'name = "desk"\ndatabase = "sqlite:///saga.db"', 1)
        )

    async def write(self, path: str, content: str, *, abort: bool = False) -> str:
        """Let a tool write a file, in a saga of its own."""
        return await self.call("write_text", {"path": path, "content": content}, abort=abort)

    async def call(self, tool: str, args: Mapping[str, Any], *, abort: bool = False) -> str:
        async with app.open_app(app.load(self.config)) as opened:
            reply = await opened.engine.call(tool, args, caller=Caller())
            if abort:
                await opened.engine.abort(reply.saga_id, cause="agent")
                await opened.engine.rest(reply.saga_id)
            return reply.saga_id

    async def show(self, *arguments: str) -> tuple[int, str]:
        with anyio.fail_after(BOUND_S):
            ran = await anyio.run_process(
                [*COMMAND, "show", *arguments, "--config", str(self.config)], check=False, cwd=self.folder
            )
        return ran.returncode, (ran.stdout + ran.stderr).decode()

    @property
    def done(self) -> list[str]:
        """What was written, and what was read."""
        return (self.folder / "journal").read_text().splitlines()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "a").write_text("old\n")
    return Desk(tmp_path)


@pytest.mark.slow
async def test_what_somebody_changed_since_is_shown_against_what_the_step_left_behind(desk: Desk) -> None:
    saga_id = await desk.write("a", "new\n")
    (desk.folder / "a").write_text("theirs\n")
    before = desk.done
    code, said = await desk.show(saga_id, "--diff", "--now")
    assert code == 0, said
    lines = said.splitlines()
    at = lines.index("--- step 1 desk.write_text: left behind")
    assert lines[at + 1] == "+++ step 1 desk.write_text: now"
    assert [line for line in lines[at + 3 :] if line[:1] in "+-" and "content" in line] == [
        '-  "content": "new\\n"',
        '+  "content": "theirs\\n"',
    ]
    assert "--- step 1 desk.write_text: captured before" in lines
    assert desk.done == [*before, "read a"]  # nothing else was called


async def test_where_nobody_touched_it_that_is_said(desk: Desk) -> None:
    saga_id = await desk.write("a", "new\n")
    _, said = await desk.show(saga_id, "--diff", "--now")
    assert "step 1 desk.write_text: now is what the step left behind" in said


@pytest.mark.slow
async def test_where_it_is_undone_now_is_as_it_was_before(desk: Desk) -> None:
    saga_id = await desk.write("a", "new\n", abort=True)
    _, said = await desk.show(saga_id, "--diff", "--now")
    assert "step 1 desk.write_text: now is what was captured before" in said


async def test_what_is_gone_is_shown_as_nothing(desk: Desk) -> None:
    saga_id = await desk.write("a", "new\n")
    (desk.folder / "a").unlink()
    _, said = await desk.show(saga_id, "--diff", "--now", "--json")
    (shown,) = json.loads(said)["diff"]
    assert (shown["now"]["found"], shown["now_unseen"]) == (False, "")


async def test_without_a_picture_of_the_time_after_now_is_compared_with_the_time_before(desk: Desk) -> None:
    saga_id = await desk.call("move", {"key": "K-1", "transition": "31"})
    _, said = await desk.show(f"{saga_id}.1", "--diff", "--now")
    lines = said.splitlines()
    at = lines.index("+++ step 1 desk.move: now")
    assert lines[at - 1] == "--- step 1 desk.move: captured before"
    assert {'-  "status": "open"', '+  "status": "done"'} <= set(lines[at:])


@pytest.mark.slow
async def test_what_cannot_be_read_now_says_why_and_the_rest_is_shown(desk: Desk) -> None:
    saga_id = await desk.write("a", "new\n")
    (desk.folder / "a").unlink()
    (desk.folder / "a").mkdir()
    code, said = await desk.show(saga_id, "--diff", "--now")
    assert code == 0, said
    assert "step 1 desk.write_text: what is there now cannot be read: IsADirectoryError" in said
    assert '+  "content": "new\\n"' in said
    _, said = await desk.show(saga_id, "--diff", "--now", "--json")
    (shown,) = cast("list[dict[str, Any]]", json.loads(said)["diff"])
    assert (shown["now"], "IsADirectoryError" in shown["now_unseen"]) == (None, True)


async def test_a_tool_that_is_not_there_any_more_is_not_guessed_at(desk: Desk) -> None:
    saga_id = await desk.write("a", "new\n")
    moved = desk.config.read_text().replace("[python.desk]", "[python.table]").replace("desk.", "table.")
    desk.config.write_text(moved.replace('path = "table.py"', 'path = "desk.py"'))
    code, said = await desk.show(saga_id, "--diff", "--now")
    assert code == 0, said
    assert "cannot be read: desk.read_text is not available in this config" in said


@pytest.mark.slow
async def test_nothing_is_called_unless_it_is_asked_for(desk: Desk) -> None:
    saga_id = await desk.write("a", "new\n")
    before = desk.done
    _, said = await desk.show(saga_id, "--diff")
    assert "now" not in said
    assert desk.done == before
    code, said = await desk.show(saga_id, "--now")
    assert (code, "--now goes with --diff" in said) == (2, True)


async def test_what_a_guard_of_its_own_expects_and_finds_is_shown(desk: Desk) -> None:
    """It keeps no picture: of a conflict a person could see nothing but that there is one."""
    saga_id = await desk.call("number", {"name": "ours"})
    (desk.folder / "numbers.json").write_text('{"ours": "theirs"}')
    code, said = await desk.show(saga_id, "--diff", "--now")
    assert code == 0, said
    name = "step 1 desk.number"
    assert f"{name}: its guard reads desk.number_of now: it was changed since" in said
    assert f"{name}: as the step left it is ${{now.result.number == after.result.number}}" in said
    assert f"{name}: as before the step is ${{now.result.number == ''}}" in said
    assert '"number": "theirs"' in said
    _, said = await desk.show(f"{saga_id}.1", "--diff", "--now", "--json")
    (shown,) = json.loads(said)["diff"]
    guard = shown["guard"]
    assert (guard["finds"], guard["result"], shown["after"]["result"]) == (
        "changed",
        {"number": "theirs"},
        {"number": "1"},
    )
