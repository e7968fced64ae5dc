"""`probe` and `recover`: what calls tools without serving (SEMANTICS.md S3.4, S12.1)."""

from __future__ import annotations

import json

import pytest
from tests.cli.project import Project, here

from saga_mcp.app import App
from saga_mcp.domain.saga_decisions import request_abort
from saga_mcp.domain.state import Saga

PROBED = '''

@registry.tool(settle_s=0)
async def wire(name: str) -> dict[str, str]:
    """Wire money; whether it arrived can be asked."""
    if not trouble("wire-lost-before"):
        (WORLD / name).write_text("wired")
    if trouble("wire-lost") or trouble("wire-lost-before"):
        raise RuntimeError("no answer")
    return {"wire": name}


@registry.undoes(wire, safe_if_absent=False, needs_result=True)
async def unwire(name: str) -> None:
    """Wire back."""
    (WORLD / name).unlink(missing_ok=True)


@registry.probes(wire)
async def wired(name: str) -> dict[str, str] | None:
    """Whether the money arrived."""
    if trouble("bank-is-down"):
        raise ConnectionError("the bank is down")
    return {"wire": name} if (WORLD / name).exists() else None
'''


@pytest.fixture
def bank(project: Project) -> Project:
    """A project with a tool that can be probed; no probe of the engine takes long."""
    tools = project.folder / "tools.py"
    tools.write_text(tools.read_text() + PROBED)
    project.config.write_text(project.config.read_text().replace("[saga]\n", "[saga]\nprobe_for_s = 0\n"))
    return project


def in_doubt(bank: Project, how: str = "wire-lost") -> Saga:
    """The bank was down for as long as the engine asked."""
    bank.trouble(how, "bank-is-down")
    return bank.saga(("book", "room"), ("wire", "money"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "found", "summary"),
    [
        ("wire-lost", "it happened", "active: 2 done, 0 open"),
        ("wire-lost-before", "it did not happen", "active: 1 done, 1 without effect, 0 open"),
    ],
)
def test_a_verdict_of_the_probe_settles_the_step(how: str, found: str, summary: str, bank: Project) -> None:
    bank.config.write_text(bank.config.read_text().replace("[saga]\n", '[saga]\non_error = "hold"\n'))
    saga = in_doubt(bank, how)
    item = f"{saga.id}.2"
    assert "probe" in bank.run("show", item, "--json").json["item"]["do"]
    bank.trouble()
    done = bank.run("probe", item, "--yes")
    assert done.code == 0, done
    assert f"The probe of shop.wire says that {found}." in done.out
    assert done.last_line == f"{saga.id}  {summary}"
    assert bank.run("attention", "--json").json["items"] == []


def test_after_an_abort_the_verdict_lets_the_undo_go_on(bank: Project) -> None:
    saga = in_doubt(bank)
    assert bank.run("attention", "--json").json["items"][0]["kind"] == "in_doubt"
    bank.trouble()
    done = bank.run("probe", f"{saga.id}.2", "--yes", "--json")
    assert done.code == 0, done
    assert done.json["said"] == ["The probe of shop.wire says that it happened."]
    assert done.json["saga"]["state"] == "compensated"
    assert bank.world == []


@pytest.mark.slow
def test_a_probe_that_cannot_tell_changes_nothing(bank: Project) -> None:
    saga = in_doubt(bank)
    asked = bank.run("probe", f"{saga.id}.2", "--yes", "--json")
    assert (asked.code, asked.json["error"]["code"]) == (1, "no_verdict")
    assert "the bank is down" in asked.json["error"]["message"]
    assert bank.run("show", saga.id, "--json").json["saga"]["state"] == "needs_attention"


def test_what_has_no_probe_or_waits_for_nothing_is_refused(bank: Project, capfd: pytest.CaptureFixture[str]) -> None:
    bank.trouble("pay-lost")
    saga = bank.saga(("book", "room"), ("pay", "bill"))
    capfd.readouterr()
    for step, words in ((2, "has no probe that could be asked"), (1, "Nothing waits for a person")):
        assert here(bank, "probe", f"{saga.id}.{step}", "--yes", "--json") == 1
        error = json.loads(capfd.readouterr().out)["error"]
        assert (error["code"], words in error["message"]) == ("item_refused", True)
    assert here(bank, "show", f"{saga.id}.2") == 0
    assert "saga-mcp probe" not in capfd.readouterr().out


def left_behind(project: Project) -> Saga:
    """An abort that nobody has begun to carry out."""
    saga = project.saga(("book", "older"), ("book", "room"))

    async def abort(opened: App) -> Saga:
        return await opened.engine.decide_item(saga.id, lambda now, driving: request_abort(now, driving, cause="agent"))

    return project.on_engine(abort, drive=False)


@pytest.mark.slow
def test_what_was_left_behind_is_driven_to_rest_without_a_server(project: Project) -> None:
    saga = left_behind(project)
    assert project.world == ["older", "room"]
    done = project.run("recover", "--yes")
    assert done.code == 0, done
    assert saga.id in done.out
    assert "compensating" in done.out
    assert "compensated: 2 undone, 0 open" in done.out
    assert done.last_line == f"1 saga had something due, 1 at rest now, in {project.folder / 'saga.db'}"
    assert "cancelling" not in done.out
    assert project.world == []

    again = project.run("recover", "--yes", "--json")
    assert (again.code, again.json["sagas"], again.json["at_rest"]) == (0, [], 0)


@pytest.mark.slow
def test_what_needs_a_person_afterwards_is_no_success(project: Project) -> None:
    saga = left_behind(project)
    project.trouble("cancel-impossible")
    done = project.run("recover", "--yes", "--json")
    assert done.code == 1
    (driven,) = done.json["sagas"]
    assert (driven["id"], driven["state"], driven["at_rest"]) == (saga.id, "needs_attention", True)
    assert project.world == ["older", "room"]


@pytest.mark.slow
def test_beside_a_living_server_it_waits_for_what_that_one_does(project: Project) -> None:
    saga = left_behind(project)
    with project.serving():
        done = project.run("recover", "--yes", "--json")
    assert done.code == 0, done
    assert project.run("show", saga.id, "--json").json["saga"]["state"] == "compensated"
    assert project.world == []
