"""The commands that call tools without serving: `probe`, `recover` (SEMANTICS.md S3.4, S12.1).

Both open the tools in this process, also beside a living server: a server's own probing may be over, and what a dead
one left must not wait for the next that starts.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import anyio
import typer

from saga_mcp import app
from saga_mcp.app import App
from saga_mcp.cli.act import ItemArgument, item_named
from saga_mcp.cli.drive import ALONE_WAIT_S, Plan, carry_out, opened_for_a_while
from saga_mcp.cli.ground import Ground, open_log, stand_on
from saga_mcp.cli.hanging import Hanging, hanging
from saga_mcp.cli.hosts import left_to_others, needs_words
from saga_mcp.cli.items import item_at, verbs
from saga_mcp.cli.options import ConfigOption, JsonOption, WaitOption, YesOption, ask, require_answerable
from saga_mcp.cli.output import CommandFailed, Exit, Output, count
from saga_mcp.domain.attention import NEEDS_ATTENTION, QUARANTINED, reported_state, summary
from saga_mcp.domain.duties import busy
from saga_mcp.domain.errors import ItemRefused, LogError, SagaQuarantined
from saga_mcp.domain.hiding import hiding
from saga_mcp.domain.hosts import awaited_hosts, require_here
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, JsonObject
from saga_mcp.engine.engine import Engine
from saga_mcp.engine.undo_probing import settling
from saga_mcp.log.port import SagaLog, SagaRow
from saga_mcp.tools.port import Landed, NoVerdict


def probe(
    name: ItemArgument,
    *,
    yes: YesOption = False,
    wait: WaitOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a probe once whether a step in doubt, or its undo, happened. A verdict settles it, and the saga goes on.

    Example: saga-mcp probe sg-7k2m....2 --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    saga_id, step = item_named(name)
    said: list[str] = []

    async def decide(engine: Engine) -> Saga:
        saga = await engine.saga(saga_id)
        tool = _probed(saga, step)
        require_here(saga.step(step), f"{saga.id}.{step}", engine.settings.host)
        waits = item_at(saga, step)
        if waits is not None and waits.kind is ItemKind.UNDO_IN_DOUBT:
            return await _undo_probed(engine, saga, step, said)
        asked = await engine.probing.ask(saga, step)
        if isinstance(asked.verdict, NoVerdict):
            error = hiding(saga).text(asked.verdict.error)
            reason = f": {error}" if error else ""
            raise CommandFailed(
                f"The probe of {tool} cannot tell{reason}. Nothing was changed. Find out by hand, then "
                f"`saga-mcp resolve {name} --landed` or `--absent`.",
                code="no_verdict",
            )
        found = "happened" if isinstance(asked.verdict, Landed) else "did not happen"
        said.append(f"The probe of {tool} says that it {found}.")
        return await engine.decide_item(saga_id, engine.probing.settling(step, asked))

    plan = Plan(
        saga_id=saga_id,
        question=lambda saga: f"Ask the probe of {_probed(saga, step)}? What it says settles the step.",
        decide=decide,
        reached=lambda saga: item_at(saga, step) is None,
        wait_s=wait,
        calls_tools=True,
        said=said,
    )
    anyio.run(carry_out, stand_on(config), plan, yes, as_json)


async def _undo_probed(engine: Engine, saga: Saga, step: int, said: list[str]) -> Saga:
    done = await engine.undo_probing.ask(saga, step)
    part = saga.step(step).next_part
    if done is None or part is None:
        raise CommandFailed(
            f"The probe of the undo of {saga.step(step).tool} cannot tell. Nothing was changed. Find out by hand, then "
            f"`saga-mcp resolve {saga.id}.{step} --undone`, or `saga-mcp retry {saga.id}.{step}` if it did not happen.",
            code="no_verdict",
        )
    said.append(f"The probe says that the undo of {saga.step(step).tool} {'happened' if done else 'did not happen'}.")
    return await engine.decide_item(saga.id, settling(saga.step(step), part, done=done))


def _probed(saga: Saga, step: int) -> str:
    """The tool whose probe can say something about this item."""
    item = item_at(saga, step)
    if item is None:
        raise ItemRefused(
            f"Nothing waits for a person at {saga.id}.{step}. Nothing was changed. See `saga-mcp attention`."
        )
    if not item.has_probe:
        takes = " | ".join(verbs(item))
        raise ItemRefused(f"{item.name} has no probe that could be asked. Nothing was changed. It takes: {takes}.")
    return item.tool


@dataclass(frozen=True, slots=True)
class _Driven:
    """A saga before and after."""

    row: SagaRow
    saga: Saga | None
    """None: it cannot be read."""
    error: str = ""

    @property
    def now(self) -> str:
        return self.error if self.saga is None else summary(self.saga)

    @property
    def at_rest(self) -> bool:
        return self.saga is not None and not busy(self.saga)

    @property
    def needs_person(self) -> bool:
        return self.saga is None or reported_state(self.saga) == NEEDS_ATTENTION


def recover(
    *,
    yes: YesOption = False,
    wait: WaitOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Do what is due without serving: probes, retries and undos that a server left behind. Until rest, then end.

    Example: saga-mcp recover --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    anyio.run(_recover, stand_on(config), yes, ALONE_WAIT_S if wait is None else wait, Output(as_json))


async def _recover(ground: Ground, yes: bool, wait_s: float, output: Output) -> None:  # noqa: FBT001 - for anyio.run
    async with open_log(ground) as log:
        due = await log.busy_sagas(ground.realm)
    unsent = (await app.count_alerts(ground.loaded)).pending if ground.loaded.alerts else 0
    driven: list[_Driven] = []
    hangs: list[Hanging] = []
    if due or unsent:
        alerts = f" and send {count(unsent, 'alert')}" if unsent else ""
        ask(f"Drive {count(len(due), 'saga')} of the realm {ground.realm} to rest{alerts}?", yes=yes)
        async with opened_for_a_while(ground, drive=True) as opened:
            with anyio.move_on_after(wait_s):
                for row in due:
                    await _rest(opened, row, alone=not ground.servers())
        async with open_log(ground) as log:  # what was under way is recorded by now
            driven = [await _after(log, row) for row in due]
            hangs = await hanging(ground, log)
        unsent = (await app.count_alerts(ground.loaded)).pending if ground.loaded.alerts else 0
    _report(ground, driven, hangs, unsent, output)
    if any(not each.at_rest or each.needs_person for each in driven):
        raise typer.Exit(Exit.FAILED)


async def _rest(opened: App, row: SagaRow, *, alone: bool) -> None:
    async with anyio.create_task_group() as either:

        async def until_others_are_needed() -> None:
            with contextlib.suppress(LogError):
                await left_to_others(opened, row.id)
                either.cancel_scope.cancel()

        if alone:
            either.start_soon(until_others_are_needed)
        with contextlib.suppress(SagaQuarantined):  # said in the report; the others go on
            await opened.engine.rest(row.id)
        either.cancel_scope.cancel()


async def _after(log: SagaLog, row: SagaRow) -> _Driven:
    try:
        return _Driven(row, await log.load(row.id))
    except SagaQuarantined as error:
        return _Driven(row, None, f"{QUARANTINED}: {error.reason}")


def _report(ground: Ground, driven: list[_Driven], hangs: list[Hanging], unsent: int, output: Output) -> None:
    resting = sum(each.at_rest for each in driven)
    waiting = sum(each.needs_person for each in driven)
    if output.as_json:
        sagas: list[JsonObject] = [
            {
                "id": each.row.id,
                "state": QUARANTINED if each.saga is None else reported_state(each.saga),
                "at_rest": each.at_rest,
                "before": each.row.state,
                "summary": each.now,
                "needs_hosts": [] if each.saga is None else [*awaited_hosts(each.saga, ground.loaded.settings.host)],
            }
            for each in driven
        ]
        output.json(
            {
                "realm": ground.realm,
                "database": ground.database,
                "sagas": [*sagas],
                "at_rest": resting,
                "overdue": [each.json() for each in hangs],
                "alerts_left": unsent,
            }
        )
        return
    if driven:
        output.table(
            ("SAGA", "WAS", "IS", "PURPOSE"),
            [(each.row.id, each.row.state, each.now, each.row.purpose) for each in driven],
        )
    for server in ground.servers():
        output.text(f"A server of this realm is alive (pid {server.where}) and does the same.")
    output.text(*(each.line() for each in hangs))
    if waiting:
        output.text("What waits for a person: `saga-mcp attention`.")
    if unsent:
        output.text(f"{count(unsent, 'alert')} could not be sent yet: `saga-mcp doctor` says more.")
    away = [(each.row.id, needs_words(each.saga, ground.loaded.settings.host)) for each in driven if each.saga]
    output.text(*(f"{saga_id}: {words}" for saga_id, words in away if words))
    if resting < len(driven) - sum(bool(words) for _, words in away):
        output.text("Not everything came to rest in time: run it again, or start a server.")
    output.text(f"{count(len(driven), 'saga')} had something due, {resting} at rest now, in {ground.database}")
