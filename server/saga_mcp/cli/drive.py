"""How a change is carried out: asked about, appended, driven to rest by whoever is there, and reported (S12.1)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import typer

from saga_mcp.app import App
from saga_mcp.cli import views
from saga_mcp.cli.ground import Ground, open_app, open_log, stdout_kept_clean
from saga_mcp.cli.hosts import left_to_others, needs_words
from saga_mcp.cli.look import load
from saga_mcp.cli.options import ask
from saga_mcp.cli.output import Exit, Output
from saga_mcp.domain.attention import summary
from saga_mcp.domain.duties import busy
from saga_mcp.domain.errors import DriverUnavailable, LogError
from saga_mcp.domain.hiding import hidden
from saga_mcp.domain.hosts import awaited_hosts
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject
from saga_mcp.engine.drivers.tenure import LOCAL, TEMPORAL
from saga_mcp.engine.engine import Engine
from saga_mcp.log.port import SagaLog

_NAMES = (LOCAL, TEMPORAL)
ALONE_WAIT_S = 60.0
"""How long a command without a server drives by default."""
_DRAIN_S = 2.0
"""How long undos under way may take to be recorded when the command ends before they do."""
_ALERTS_S = 5.0
"""How long alerts may take to be delivered when no server is left to do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What would come of it, shown whether or not a person is asked."""

    question: str
    show: Callable[[Output], None]
    json: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a command is about to do."""

    saga_id: str
    question: Callable[[Saga], str]
    """What a person is asked, given the state before."""
    foresee: Callable[[SagaLog, Saga], Awaitable[Foreseen]] | None = None
    """Works out what would come of it, and with it a better question; raises `Refused` where nothing would."""
    decide: Callable[[Engine], Awaitable[Saga]]
    """Appends the decision; raises `Refused` where the state machine says no."""
    reached: Callable[[Saga], bool]
    """Whether a saga at rest is where the person wanted it."""
    wait_s: float | None = None
    detach: bool = False
    drives: bool = True
    """Whether something may be left to drive afterwards."""
    calls_tools: bool = False
    """It calls tools by itself, also beside a living server."""
    said: list[str] = field(default_factory=list[str])
    """What came of it, for people: filled while it is carried out."""


async def carry_out(ground: Ground, plan: Plan, yes: bool, as_json: bool) -> None:  # noqa: FBT001 - for anyio.run
    """Do it, and print what came of it.

    Raises:
        CommandFailed: the log cannot be used, or holds no such saga.
        Refused: the state machine said no; nothing was changed.
        typer.Exit: the saga is not where the person wanted it.
    """
    output = Output(as_json)
    servers = ground.servers()
    alone = not servers and not plan.detach and plan.drives and ground.loaded.temporal is None
    here = alone or plan.calls_tools
    wait_s = plan.wait_s if plan.wait_s is not None else ALONE_WAIT_S if alone else 0.0
    async with open_log(ground) as log:
        before = await load(log, ground, plan.saga_id)
        foreseen = None if plan.foresee is None else await plan.foresee(log, before)
    if foreseen is not None and not as_json:
        foreseen.show(output)
    ask(plan.question(before) if foreseen is None else foreseen.question, yes=yes)
    async with opened_for_a_while(ground, drive=here) as opened:
        saga = await plan.decide(opened.engine)
        if busy(saga) and wait_s:
            saga = await _at_rest(opened, saga, wait_s, output, alone=not servers)
        if here:
            saga = await _calls_ended(opened, saga, output)
    told = _told(ground, opened.engine)
    going_on = busy(saga)
    driven_by = told[0] if told else _driver(alone=alone, server=bool(servers))
    if going_on and told:
        plan.said.append(told[1])
    _report(ground, plan, saga, output, driven_by=driven_by, foreseen=foreseen)
    if (going_on and wait_s) or (not going_on and not plan.reached(saga)):
        raise typer.Exit(Exit.FAILED)


@contextlib.asynccontextmanager
async def opened_for_a_while(ground: Ground, *, drive: bool) -> AsyncGenerator[App]:
    """The engine for a command that changes something; where it drives, what is under way at its end is recorded."""
    with stdout_kept_clean():
        async with open_app(ground, drive=drive) as opened:
            try:
                yield opened
            finally:
                if drive:
                    with anyio.CancelScope(shield=True):
                        await opened.engine.drain(_DRAIN_S)
                        await opened.engine.alerted(_ALERTS_S)


async def _at_rest(opened: App, saga: Saga, wait_s: float, output: Output, *, alone: bool) -> Saga:
    """The saga at rest, or as it is when the time is up; every change of the line that sums it up is shown.

    Args:
        opened: the engine.
        saga: the saga.
        wait_s: the time.
        output: where changes are shown.
        alone: no server lives that could do what is for another machine.
    """
    with anyio.move_on_after(wait_s):
        async with anyio.create_task_group() as tasks:
            if not output.as_json:
                tasks.start_soon(_show_progress, opened, saga, output)
            if alone:
                tasks.start_soon(_until_others_are_needed, opened, saga, tasks.cancel_scope)
            with contextlib.suppress(
                LogError, DriverUnavailable
            ):  # the load below meets it too, outside of the task group
                await opened.engine.rest(saga.id)
            tasks.cancel_scope.cancel()
    return await opened.log.load(saga.id)


async def _until_others_are_needed(opened: App, saga: Saga, waiting: anyio.CancelScope) -> None:
    with contextlib.suppress(LogError):  # whoever waits for the rest says it
        await left_to_others(opened, saga.id)
        waiting.cancel()


async def _calls_ended(opened: App, saga: Saga, output: Output) -> Saga:
    """The saga once no call of this process runs: a wait that is over must not cut one off (S12.1)."""
    me, seen, said = opened.owners.me, 0, False
    while any(step.running and step.owner == me for step in saga.loose_steps):
        if not said:
            output.remark("... a call is still running; this command stays until it ends")
            said = True
        seen = await opened.log.wait_for_change(seen)
        saga = await opened.log.load(saga.id)
    return saga


async def _show_progress(opened: App, saga: Saga, output: Output) -> None:
    seen, last = 0, ""
    with contextlib.suppress(LogError):  # whoever waits for the rest says it
        while True:
            seen = await opened.log.wait_for_change(seen)
            line = summary(await opened.log.load(saga.id))
            if line != last:
                output.remark(f"... {line}")
                last = line


def _told(ground: Ground, engine: Engine) -> tuple[str, str] | None:
    """Who drives instead of processes with this config, and what there is to say about it; None: they do."""
    if engine.driven_otherwise:
        name = engine.driven_otherwise
        return (
            name,
            f'Recorded. This realm is driven by "{name}", not by what this config names: see `saga-mcp driver`.',
        )
    if ground.loaded.temporal is None:
        return None
    if engine.driver_trouble:
        return TEMPORAL, (
            f"Recorded. {engine.driver_trouble}: the servers and workers of this realm tell it once it is back."
        )
    return TEMPORAL, "Recorded. Temporal knows of it: a worker (`saga-mcp worker`) goes on with it."


def _driver(*, alone: bool, server: bool) -> str:
    return "server" if server else "this command" if alone else "nobody"


def _report(
    ground: Ground, plan: Plan, saga: Saga, output: Output, *, driven_by: str, foreseen: Foreseen | None
) -> None:
    going_on = busy(saga)
    if output.as_json:
        output.json(
            {
                **({} if foreseen is None else foreseen.json),
                "said": [*plan.said],
                "saga": views.saga_json(hidden(saga)),
                "at_rest": not going_on,
                "driven_by": driven_by,
                "needs_hosts": [*awaited_hosts(saga, ground.loaded.settings.host)],
                "reached": not going_on and plan.reached(saga),
                "summary": summary(saga),
            }
        )
        return
    output.text(*plan.said)
    needs = needs_words(saga, ground.loaded.settings.host)
    if needs:
        output.text("Recorded.", needs)
    elif going_on and driven_by not in _NAMES:
        output.text(_who_goes_on(ground, driven_by))
    elif not going_on and not plan.reached(saga):
        output.text(f"Recorded, and not where you wanted it: see `saga-mcp show {saga.id}` and `saga-mcp attention`.")
    output.text(f"{saga.id}  {summary(saga)}")


def _who_goes_on(ground: Ground, driven_by: str) -> str:
    match driven_by:
        case "server":
            return f"Recorded. The server (pid {', '.join(each.where for each in ground.servers())}) goes on with it."
        case "nobody":
            return "Recorded. No server of this realm is alive: the next one that starts goes on with it."
        case _:
            return "Recorded, and not at rest yet. No server of this realm is alive: start one, or run this again."
