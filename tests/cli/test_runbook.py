"""Each command of docs/operations.md, at an item of the kind that its section is about: it ends the item."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.cli.project import Project, here
from tests.cli.stuck import (
    Stuck,
    alerts_parked,
    approval,
    cannot_build,
    dead_letter,
    guard_conflict,
    idle,
    in_doubt,
    in_doubt_with_probe,
    invariant,
    late_effect,
    manual_undo,
    needs_host,
    needs_host_to_repeat,
    now,
    quarantined,
    retriable_exhausted,
    target_changed,
    undo_in_doubt,
)
from tests.cli.test_prune import KEY, OTHER

from saga_mcp.cli.items import OFFERED
from saga_mcp.domain.attention import VERBS, items
from saga_mcp.domain.values import ItemKind

RUNBOOK = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
STUCK: dict[ItemKind, tuple[Stuck, int]] = {
    ItemKind.IN_DOUBT: (in_doubt, 2),
    ItemKind.UNDO_IN_DOUBT: (undo_in_doubt, 2),
    ItemKind.DEAD_LETTER: (dead_letter, 2),
    ItemKind.TARGET_CHANGED: (target_changed, 2),
    ItemKind.NEEDS_HOST: (needs_host, 2),
    ItemKind.MANUAL_UNDO: (manual_undo, 2),
    ItemKind.CANNOT_BUILD: (cannot_build, 2),
    ItemKind.GUARD_CONFLICT: (guard_conflict, 2),
    ItemKind.RETRIABLE_EXHAUSTED: (retriable_exhausted, 2),
    ItemKind.LATE_EFFECT: (late_effect, 2),
    ItemKind.INVARIANT: (invariant, 0),
    ItemKind.APPROVAL: (approval, 2),
    ItemKind.IDLE: (idle, 0),
    ItemKind.OUTBOX_PARKED: (alerts_parked, 0),
}
STAYS = {"resolve ITEM --landed": {ItemKind.IN_DOUBT}}
"""What does not end the item by itself: the undo needs a result, and a person is asked for that next."""


def commands(section: str) -> list[str]:
    """The commands of a section's blocks, without their remarks."""
    blocks = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    return [line.partition(" #")[0].strip().removeprefix("saga-mcp ") for line in blocks.splitlines()]


def sections() -> dict[str, str]:
    found = re.split(r"^### `(\w+)`\n", RUNBOOK.partition("\n## A service")[0], flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


ENDS = [
    (kind, command)
    for kind in STUCK
    for command in commands(sections()[kind.value].partition("**Ends it")[2])
    if (kind, command) != (ItemKind.UNDO_IN_DOUBT, "probe ITEM")  # an undo of an upstream has one: tests/upstream
]


def encrypted(project: Project) -> None:
    text = project.config.read_text(encoding="utf-8")
    keys = 'encryption_keys = ["${env:SAGA_KEY}"]'
    project.config.write_text(text.replace("[saga]\n", f"[saga]\n{keys}\n"), encoding="utf-8")


def words(command: str, saga_id: str, step: int) -> list[str]:
    return [word.replace("ITEM", f"{saga_id}.{step}").replace("SAGA", saga_id) for word in shlex.split(command)]


@pytest.mark.parametrize(("kind", "command"), ENDS, ids=[f"{kind.value}-{command}" for kind, command in ENDS])
def test_a_command_of_the_runbook_ends_the_item_that_it_is_given_for(
    kind: ItemKind, command: str, project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    stuck, step = STUCK[kind]
    if command.startswith("probe"):
        stuck = in_doubt_with_probe
    if kind is ItemKind.NEEDS_HOST and "--landed" in command:
        stuck = needs_host_to_repeat
    saga = stuck(project)
    assert [(item.step, item.kind) for item in items(saga)] == [(step, kind)]
    project.trouble()
    capfd.readouterr()
    by = [] if command.startswith("probe") else ["--by", "ada"]
    code = here(project, *words(command, saga.id, step), *by, "--yes", "--json")
    answer = json.loads(capfd.readouterr().out)
    left = [item.kind for item in items(now(project, saga.id))]
    if kind in STAYS.get(command, ()):
        assert (code, left) == (1, [ItemKind.CANNOT_BUILD]), answer
    else:
        assert (code, left) == (0, []), answer


LOOKS = [
    f"show {what}" for what in ("ITEM", "ITEM --values", "SAGA", "SAGA --diff", "SAGA --timeline", "SAGA --values")
]


@pytest.mark.parametrize("kind", list(STUCK))
def test_what_the_runbook_says_to_look_at_is_there(
    kind: ItemKind, project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    stuck, step = STUCK[kind]
    saga = stuck(project)
    capfd.readouterr()
    named = re.findall(r"`(show [^`]+)`", sections()[kind.value].partition("**Ends it")[0])
    assert set(named) <= set(LOOKS)
    for command in LOOKS:
        assert here(project, *words(command, saga.id, step)) == 0, command
        assert capfd.readouterr().out.strip(), command
    assert here(project, "attention") == 0
    shown = capfd.readouterr().out
    assert f"{saga.id}.{step}" in shown
    assert kind.value in shown


def test_a_quarantined_saga_is_shown_and_exported_as_far_as_it_can_be_read(project: Project) -> None:
    saga = quarantined(project)
    for command in commands(sections()["quarantine"]):
        answer = project.run(*words(command, saga.id, 0))
        assert answer.code == 1
        assert "quarantined" in answer.err, command
        assert "STEP_INTENDED" in answer.out or "StepIntended" in answer.out, command


@pytest.mark.slow
def test_a_service_that_is_down_is_paused_resumed_and_what_it_left_tries_again(project: Project) -> None:
    saga = dead_letter(project)
    project.trouble()
    for command in commands(RUNBOOK.partition("## A service")[2].partition("\n## ")[0]):
        arguments = ["cancel" if word == "TOOL" else word for word in shlex.split(command)]
        answer = project.run(*arguments, *([] if arguments[0] == "list" else ["--yes"]))
        assert answer.code == 0, (command, answer)
    assert now(project, saga.id).phase == "compensated"
    assert project.world == []


@pytest.mark.slow
def test_the_log_is_kept_with_the_commands_that_are_given(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted(project)
    monkeypatch.setenv("SAGA_KEY", KEY)
    saga = project.saga(("book", "room"), abort=True)
    keys = {"SAGA_KEY": KEY}
    given = commands(RUNBOOK.partition("\n## Keeping the log")[2].partition("\n## ")[0])
    assert [command.split()[0] for command in given] == ["verify", "verify", "prune", "prune", "doctor"]
    for command in given:
        sooner = command.replace("30d", "0s")
        answer = project.run(
            *shlex.split(sooner), *(["--yes"] if command == "prune --older-than 30d" else []), env=keys
        )
        assert answer.code == 0, (command, answer)
    assert "was pruned" in project.run("show", saga.id, env=keys).err


@pytest.mark.slow
def test_where_a_key_is_missing_the_log_names_it_and_goes_on_with_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted(project)
    monkeypatch.setenv("SAGA_KEY", KEY)
    saga = project.saga(("book", "room"))
    other = {"SAGA_KEY": OTHER}
    for command in ("show SAGA", "abort SAGA --yes", "verify", "doctor"):
        answer = project.run(*words(command, saga.id, 1), "--json", env=other)
        assert (answer.code, "encrypted with key " in answer.out) == (1, True), (command, answer)
    project.config.write_text(
        project.config.read_text(encoding="utf-8").replace("SAGA_KEY}", 'OTHER}", "${env:SAGA_KEY}'), encoding="utf-8"
    )
    assert project.run("abort", saga.id, "--yes", env={"SAGA_KEY": KEY, "OTHER": OTHER}).code == 0
    assert project.world == []


@pytest.mark.slow
def test_where_nothing_goes_on_the_commands_say_why_and_do_it(project: Project) -> None:
    saga = project.saga(("book", "room"))
    assert project.run("abort", saga.id, "--detach", "--yes").code == 0
    for command in commands(RUNBOOK.partition("## Nothing goes on")[2]):
        answer = project.run(*shlex.split(command), *(["--yes"] if command == "recover" else []))
        assert answer.code == 0, (command, answer)
    assert project.world == []


@pytest.mark.slow
def test_the_commands_to_look_at_first_work_at_any_item(project: Project) -> None:
    saga = dead_letter(project)
    first = commands(RUNBOOK.partition("## The items")[0])
    assert len(first) == 4
    for command in first:
        assert project.run(*words(command, saga.id, 2)).code == 0, command


@pytest.mark.parametrize("kind", list(STUCK))
def test_a_section_names_every_verb_that_fits_and_no_other(kind: ItemKind) -> None:
    said = {
        " ".join(word for word in shlex.split(command) if word not in {"ITEM", "SAGA"} and not word.startswith("{"))
        for command in commands(sections()[kind.value].partition("**Ends it")[2])
    }
    more = {"resolve --landed --result"} if kind is ItemKind.IN_DOUBT else set[str]()
    assert said - more == set(VERBS[kind]) & OFFERED
