"""Secrets that the log keeps for an undo, in what commands and models are told of a saga (SEMANTICS.md S11.4)."""

from __future__ import annotations

import json

import pytest
from tests.cli.project import AGENT, Project, here

from saga_mcp.app import App
from saga_mcp.domain.state import Saga
from saga_mcp.edge.look import Look
from saga_mcp.edge.status import saga_view

Capture = pytest.CaptureFixture[str]

SECRET = "hunter2hunter2"  # noqa: S105 - made up
TOOLS = '''
from saga_tools import Call


@registry.part(retry=Retry(attempts=1, first_delay_s=0, max_delay_s=0))
async def revoke(header: str) -> None:
    raise CannotUndo(f"cannot revoke {header.removeprefix('Bearer ')}")


@registry.tool(secret=["token", "seal"])
async def grant(name: str, token: str, seal: str, call: Call) -> dict[str, str]:
    """Grant."""
    await call.on_undo(revoke, header=f"Bearer {token}")
    return {"name": name}


@registry.undoes(grant)
async def ungrant(name: str) -> None:
    """Ungrant."""


@registry.tool(secret=["token"])
async def lend(name: str, token: str) -> dict[str, str]:
    """Lend."""
    return {"name": name}


@registry.undoes(lend)
async def unlend(name: str, token: str) -> None:
    """Unlend."""
    raise NeedsPerson(f"unlend {token} by hand")
'''


@pytest.fixture
def desk(project: Project) -> Project:
    file = project.folder / "tools.py"
    file.write_text(file.read_text(encoding="utf-8") + TOOLS, encoding="utf-8")
    return project


def called(desk: Project, tool: str, *, abort: bool, **secrets: str) -> Saga:
    """A saga of one call, at its end."""

    async def work(opened: App) -> Saga:
        saga = await opened.engine.begin(AGENT)
        reply = await opened.engine.call(tool, {"name": "x", **secrets}, saga_id=saga.id, caller=AGENT)
        assert not reply.code, reply
        if abort:
            return await opened.engine.abort(saga.id, cause="agent")
        return await opened.engine.commit(saga.id, by="agent")

    return desk.on_engine(work)


def test_what_a_command_did_to_a_saga_is_told_without_its_secrets(desk: Project, capfd: Capture) -> None:
    saga = called(desk, "lend", abort=False, token=SECRET)
    capfd.readouterr()
    here(desk, "revert", saga.id, "--json", "--yes")
    said = capfd.readouterr()
    assert "unlend [secret] by hand" in said.out
    assert SECRET not in said.out + said.err


def test_a_secret_that_a_call_hands_to_its_own_undo_is_shown_to_nobody(desk: Project, capfd: Capture) -> None:
    saga = called(desk, "grant", abort=True, token=SECRET, seal="wax-4711-wax")
    told = json.dumps(saga_view(Look.at(saga), lambda name: name))
    assert "cannot revoke [secret]" in told
    capfd.readouterr()
    for command in (("attention",), ("export", saga.id, "--values"), ("show", saga.id, "--values", "--timeline")):
        here(desk, *command)
        said = capfd.readouterr()
        told += said.out + said.err
    assert "Bearer [secret]" in told
    assert SECRET not in told
    log = b"".join(file.read_bytes() for file in desk.folder.glob("saga.db*") if file.is_file())
    assert SECRET.encode() in log  # its undo needs it
    assert b"wax-4711-wax" not in log


def test_what_a_revert_takes_over_is_told_without_the_secrets_of_its_undo(desk: Project, capfd: Capture) -> None:
    saga = called(desk, "grant", abort=False, token=SECRET, seal="wax-4711-wax")
    capfd.readouterr()
    here(desk, "revert", saga.id, "--json", "--yes")
    revert = json.loads(capfd.readouterr().out)["saga"]["id"]
    told = ""
    for command in (("show", revert, "--values", "--json"), ("export", revert, "--values"), ("attention",)):
        here(desk, *command)
        said = capfd.readouterr()
        told += said.out + said.err
    assert "cannot revoke [secret]" in told
    assert SECRET not in told
