"""Sagas that wait for a person, one builder for each kind of item; the item is at step 2 unless it says otherwise."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import replace

from tests.cli.project import Project, here

from saga_mcp.app import App
from saga_mcp.domain.events import (
    AbortRequested,
    AlertsParked,
    Event,
    SagaIdled,
    StepAttemptEnded,
    StepHostAwaited,
    StepIntended,
    StepSettled,
    StepSucceeded,
    UndoParked,
    UndoResumed,
)
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Effect, ItemKind, SettledBy

Stuck = Callable[[Project], Saga]


def in_doubt(project: Project) -> Saga:
    project.trouble("pay-lost")
    return project.saga(("book", "room"), ("pay", "bill"))


def undo_in_doubt(project: Project) -> Saga:
    project.trouble("refund-lost")
    return project.saga(("book", "room"), ("pay", "bill"), abort=True)


def dead_letter(project: Project) -> Saga:
    project.trouble("cancel-impossible")
    return project.saga(("book", "older"), ("book", "room"), abort=True)


def manual_undo(project: Project) -> Saga:
    project.trouble("cancel-asks")
    return project.saga(("pay", "bill"), ("book", "room"), purpose="a trip", abort=True)


def cannot_build(project: Project) -> Saga:
    saga = in_doubt(project)
    assert here(project, "resolve", f"{saga.id}.2", "--landed", "--yes") == 1
    return now(project, saga.id)


def guard_conflict(project: Project) -> Saga:
    """Appended as the engine will: nothing in Python pairs makes one yet."""
    saga = dead_letter(project)
    conflict = UndoParked(step=2, part="1", item=ItemKind.GUARD_CONFLICT, message="changed")
    return append(project, saga.id, UndoResumed(step=2, by="ada"), conflict)


def retriable_exhausted(project: Project) -> Saga:
    project.trouble("tell-fails")
    return project.saga(("ship", "parcel"), ("tell", "customer"))


def late_effect(project: Project) -> Saga:
    saga = in_doubt(project)
    assert here(project, "resolve", f"{saga.id}.2", "--absent", "--yes") == 0
    late = StepSettled(step=2, landed=True, by=SettledBy.LATE_ANSWER, result={"receipt": "x"}, parts=None)
    return append(project, saga.id, late)


def invariant(project: Project) -> Saga:
    return project.saga(("ship", "parcel"), ("tell", "bad"))


def idle(project: Project) -> Saga:
    saga = project.saga(("book", "room"))
    return append(project, saga.id, SagaIdled())


def append(project: Project, saga_id: str, *events: Event) -> Saga:
    async def work(opened: App) -> Saga:
        return await opened.engine.decide_item(saga_id, lambda _saga, _driving: events)

    return project.on_engine(work, drive=False)


def now(project: Project, saga_id: str) -> Saga:
    async def work(opened: App) -> Saga:
        return await opened.engine.saga(saga_id)

    return project.on_engine(work, drive=False)


def in_doubt_with_probe(project: Project) -> Saga:
    project.config.write_text(project.config.read_text().replace("[saga]", "[saga]\nprobe_for_s = 0.2"))
    project.trouble("transfer-lost", "probe-down")
    return project.saga(("book", "room"), ("transfer", "bill"))


def target_changed(project: Project) -> Saga:
    """The registry's name is the place of its tools: under another one they act somewhere else."""
    saga = project.saga(("book", "room"), ("book", "older"))
    config = project.config.read_text()
    project.config.write_text(config.replace("[python.shop]", "[python.store]"))
    assert here(project, "abort", saga.id, "--yes") == 1
    project.config.write_text(config)
    return now(project, saga.id)


def needs_host(project: Project) -> Saga:
    """Its last step was done on a machine that has been away for ten minutes."""
    saga = project.saga(("book", "room"))
    plan = replace(saga.step(1).plan, host="warehouse")
    return append(
        project,
        saga.id,
        StepIntended(step=2, plan=plan, owner="own-0000000000000000"),
        StepSucceeded(step=2, parts=saga.step(1).main, result=saga.step(1).result),
        AbortRequested(cause="operator", by="ada"),
        StepHostAwaited(step=2),
    )


def needs_host_to_repeat(project: Project) -> Saga:
    """The same of a call that has to succeed, and so far did not."""
    plan = replace(project.saga(("ship", "other"), ("tell", "other")).step(2).plan, host="warehouse")
    saga = project.saga(("ship", "parcel"))
    return append(
        project,
        saga.id,
        StepIntended(step=2, plan=plan, owner="own-0000000000000000"),
        StepAttemptEnded(step=2, effect=Effect.NONE),
        StepHostAwaited(step=2),
    )


def approval(project: Project) -> Saga:
    project.config.write_text(f'{project.config.read_text()}\n[tools."shop.pay"]\napproval = true\n')
    return project.saga(("book", "room"), ("pay", "bill"))


def alerts_parked(project: Project) -> Saga:
    saga = project.saga(("book", "room"))
    return append(project, saga.id, AlertsParked(reason="the receiver is gone"))


def quarantined(project: Project) -> Saga:
    saga = project.saga(("book", "room"))
    with contextlib.closing(sqlite3.connect(project.folder / "saga.db")) as raw, raw:
        raw.execute("UPDATE saga_event SET type = 'StepImagined' WHERE saga_id = ? AND seq = 3", (saga.id,))
    return saga
