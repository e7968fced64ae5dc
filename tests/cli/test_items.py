"""Each verb at each kind of item that it fits (SEMANTICS.md S14.3), and what it refuses."""

from __future__ import annotations

import json

import pytest
from tests.cli.project import Project, here
from tests.cli.stuck import (
    Stuck,
    cannot_build,
    dead_letter,
    guard_conflict,
    idle,
    in_doubt,
    invariant,
    late_effect,
    manual_undo,
    now,
    retriable_exhausted,
    undo_in_doubt,
)

from saga_mcp.domain.attention import items, reported_state
from saga_mcp.domain.values import ItemKind, Phase, StepState

Capture = pytest.CaptureFixture[str]


RESULT = json.dumps({"receipt": "r-bill"})

FITTING: list[tuple[Stuck, int, list[str], Phase, list[str]]] = [
    (in_doubt, 2, ["resolve", "--landed", "--result", RESULT], Phase.COMPENSATED, []),
    (in_doubt, 2, ["resolve", "--absent"], Phase.COMPENSATED, ["bill"]),
    (in_doubt, 2, ["exempt"], Phase.COMPENSATED, ["bill"]),
    (undo_in_doubt, 2, ["resolve", "--undone"], Phase.COMPENSATED, ["bill"]),
    (undo_in_doubt, 2, ["retry"], Phase.COMPENSATED, []),
    (undo_in_doubt, 2, ["exempt"], Phase.COMPENSATED, ["bill"]),
    (dead_letter, 2, ["retry"], Phase.COMPENSATED, []),
    (dead_letter, 2, ["resolve", "--undone"], Phase.COMPENSATED, ["room"]),
    (dead_letter, 2, ["exempt"], Phase.COMPENSATED, ["room"]),
    (manual_undo, 2, ["resolve", "--undone"], Phase.COMPENSATED, ["room"]),
    (manual_undo, 2, ["exempt"], Phase.COMPENSATED, ["room"]),
    (cannot_build, 2, ["resolve", "--landed", "--result", RESULT], Phase.COMPENSATED, []),
    (cannot_build, 2, ["resolve", "--undone"], Phase.COMPENSATED, ["bill"]),
    (cannot_build, 2, ["exempt"], Phase.COMPENSATED, ["bill"]),
    (guard_conflict, 2, ["retry"], Phase.COMPENSATED, []),
    (guard_conflict, 2, ["resolve", "--overwrite"], Phase.COMPENSATED, []),
    (guard_conflict, 2, ["resolve", "--keep"], Phase.COMPENSATED, ["room"]),
    (retriable_exhausted, 2, ["retry"], Phase.ACTIVE, ["customer", "parcel"]),
    (retriable_exhausted, 2, ["resolve", "--landed"], Phase.ACTIVE, ["parcel"]),
    (retriable_exhausted, 2, ["exempt"], Phase.ACTIVE, ["parcel"]),
    (late_effect, 2, ["resolve", "--undone"], Phase.COMPENSATED, ["bill"]),
    (late_effect, 2, ["exempt"], Phase.COMPENSATED, ["bill"]),
    (invariant, 0, ["exempt"], Phase.ACTIVE, ["bad", "parcel"]),
]


@pytest.mark.parametrize(
    ("stuck", "step", "verb", "phase", "world"),
    [pytest.param(*each, id=f"{each[0].__name__}-{'-'.join(each[2][:2])}") for each in FITTING],
)
def test_a_verb_that_fits_settles_the_item_and_the_saga_goes_on(
    stuck: Stuck, step: int, verb: list[str], phase: Phase, world: list[str], project: Project, capfd: Capture
) -> None:
    saga = stuck(project)
    assert [item.step for item in items(saga)] == [step]
    project.trouble()
    capfd.readouterr()
    word, *rest = verb

    code = here(project, word, f"{saga.id}.{step}", *rest, "--note", "asked", "--by", "ada", "--yes", "--json")

    answer = json.loads(capfd.readouterr().out)
    assert code == 0, answer
    assert (answer["saga"]["phase"], answer["saga"]["items"], answer["reached"]) == (phase, [], True)
    assert project.world == world


@pytest.mark.parametrize(
    ("stuck", "step", "verb"),
    [
        (in_doubt, 2, ["retry"]),
        (in_doubt, 2, ["resolve", "--undone"]),
        (in_doubt, 2, ["resolve", "--keep"]),
        (undo_in_doubt, 2, ["resolve", "--landed"]),
        (dead_letter, 2, ["resolve", "--absent"]),
        (dead_letter, 2, ["resolve", "--overwrite"]),
        (manual_undo, 2, ["retry"]),
        (cannot_build, 2, ["retry"]),
        (retriable_exhausted, 2, ["resolve", "--undone"]),
        (dead_letter, 1, ["retry"]),
        (dead_letter, 9, ["exempt"]),
        (invariant, 0, ["retry"]),
    ],
)
def test_a_verb_that_does_not_fit_is_refused_and_changes_nothing(
    stuck: Stuck, step: int, verb: list[str], project: Project, capfd: Capture
) -> None:
    saga = stuck(project)
    capfd.readouterr()
    word, *rest = verb

    code = here(project, word, f"{saga.id}.{step}", *rest, "--yes", "--json")

    assert code == 1
    error = json.loads(capfd.readouterr().out)["error"]
    assert error["code"] == "item_refused"
    assert "probe" not in error["message"], "this command does not have it"
    assert now(project, saga.id).seq == saga.seq


@pytest.mark.parametrize(("receipt", "state", "world"), [
    ("r-forged", "compensated", []),
    ("r-true", "active", ["forged", "room"]),
])  # fmt: skip
def test_a_result_that_a_person_gives_is_judged_like_the_tools_own(
    receipt: str, state: str, world: list[str], project: Project, capfd: Capture
) -> None:
    """SEMANTICS.md S9.3."""
    project.config.write_text(project.config.read_text().replace("[saga]", '[saga]\non_error = "hold"'))
    project.trouble("pay-lost")
    saga = project.saga(("book", "room"), ("pay", "forged"))
    capfd.readouterr()
    result = json.dumps({"receipt": receipt})
    here(project, "resolve", f"{saga.id}.2", "--landed", "--result", result, "--note", "asked", "--by", "ada", "--yes")
    here(project, "show", saga.id, "--timeline")
    out = capfd.readouterr().out
    assert reported_state(now(project, saga.id)) == state
    assert ("step 2 shop.pay  the rule 'receipts_are_real' does not hold" in out) is (state == "compensated"), out
    assert project.world == world


def test_after_the_pivot_a_rule_that_a_persons_result_breaks_is_asked_about(project: Project, capfd: Capture) -> None:
    saga = retriable_exhausted(project)
    capfd.readouterr()
    result = ["--landed", "--result", '"bad"']
    assert here(project, "resolve", f"{saga.id}.2", *result, "--by", "ada", "--yes", "--json") == 0
    [item] = json.loads(capfd.readouterr().out)["saga"]["items"]
    assert (item["item"], item["kind"]) == (f"{saga.id}.0", "invariant")


@pytest.mark.case(62)
def test_who_decided_and_why_stand_in_the_saga_for_ever(project: Project, capfd: Capture) -> None:
    saga = manual_undo(project)
    assert here(project, "resolve", f"{saga.id}.2", "--undone", "--note", "phoned\x1b[2J", "--by", "ada", "--yes") == 0
    settled = now(project, saga.id)
    assert (settled.step(2).state, settled.step(2).person) == (StepState.COMPENSATED, "ada")
    assert capfd.readouterr().out.rstrip().endswith("compensated: 1 undone, 1 by a person, 0 open")

    assert here(project, "show", saga.id, "--timeline") == 0
    out = capfd.readouterr().out
    assert 'undone by hand; by ada; "phoned\\x1b[2J"' in out
    assert "\x1b" not in out


def test_without_a_name_it_is_who_runs_the_command(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    saga = manual_undo(project)
    monkeypatch.setenv("LOGNAME", "grace")
    assert here(project, "exempt", f"{saga.id}.2", "--yes") == 0
    assert now(project, saga.id).step(2).person == "grace"


def test_a_retry_that_fails_again_says_so(project: Project, capfd: Capture) -> None:
    saga = dead_letter(project)
    assert here(project, "retry", f"{saga.id}.2", "--yes") == 1
    out = capfd.readouterr().out
    assert "not where you wanted it" in out
    assert out.rstrip().endswith("needs_attention: 0 undone, 2 open")


def test_whatever_is_left_behind_tries_again_at_once_and_is_counted_by_kind(project: Project, capfd: Capture) -> None:
    sagas = [dead_letter(project), guard_conflict(project), dead_letter(project)]
    project.trouble()
    capfd.readouterr()
    code = here(project, "retry", "--all", "--yes")
    told = capfd.readouterr()
    assert (code, "3 items let go on" in told.out) == (0, True), told
    counted = [line.split() for line in told.err.splitlines() if line.startswith("  ")]
    assert counted == [["2", "shop.book:", "dead_letter"], ["1", "shop.book:", "guard_conflict"]]
    assert {now(project, saga.id).phase for saga in sagas} == {Phase.COMPENSATED}


def test_a_forgotten_saga_is_committed_or_aborted(project: Project) -> None:
    kept, dropped = idle(project), idle(project)
    assert [item.kind for item in items(kept)] == [ItemKind.IDLE]
    assert here(project, "commit", kept.id, "--yes") == 0
    assert here(project, "abort", dropped.id, "--yes") == 0
    assert reported_state(now(project, kept.id)) == "committed"
    assert reported_state(now(project, dropped.id)) == "compensated"


@pytest.mark.case(62)
def test_attention_says_what_waits_what_it_blocks_and_what_to_do(project: Project, capfd: Capture) -> None:
    late, urgent = dead_letter(project), manual_undo(project)
    capfd.readouterr()
    assert here(project, "attention", "--json") == 0
    found = json.loads(capfd.readouterr().out)["items"]
    assert [(each["item"], each["kind"], each["urgency"], each["blocks"]) for each in found] == [
        (f"{urgent.id}.2", "manual_undo", "high", 1),
        (f"{late.id}.2", "dead_letter", "normal", 1),
    ]
    assert found[0]["do"] == ["resolve --undone", "exempt"]
    assert found[0]["message"] == "cancel room by telephone"
    assert found[0]["purpose"] == "a trip"

    assert here(project, "attention") == 0
    out = capfd.readouterr().out
    assert "ITEM" in out
    assert "retry | resolve --undone | exempt" in out
    assert out.rstrip().endswith(f"2 items for a person, in {project.folder / 'saga.db'}")
