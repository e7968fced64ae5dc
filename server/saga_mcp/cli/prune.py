"""`prune`: removes sagas that ended long ago, and values that nothing needs any more (SEMANTICS.md S11.5)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Annotated

import anyio
import typer

from saga_mcp.cli.ground import Ground, open_keeping, stand_on
from saga_mcp.cli.options import ConfigOption, JsonOption, YesOption, ask, require_answerable
from saga_mcp.cli.output import Exit, Output, age, count, wrong_usage
from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.keeping import Ended, LogKeeping

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to go."""

    prune: list[Ended]
    wipe: list[Ended]


@dataclass(slots=True)
class _Done:
    """What is gone, and what was left and why."""

    pruned: list[str] = field(default_factory=list[str])
    wiped: list[str] = field(default_factory=list[str])
    left: dict[str, str] = field(default_factory=dict[str, str])
    alerts: int = 0
    """Alerts that went undelivered with their sagas."""
    freed: int = 0
    remarks: list[str] = field(default_factory=list[str])
    failed: bool = False


def prune(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="As 30d, 12h, 90m or 60s; default: keep_s of the config.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove sagas that ended long ago and need nobody, but for a line each; and values that wipe_values lets go.

    Example: saga-mcp prune --older-than 30d --dry-run
    """
    ground = stand_on(config, code=False)
    keep_s = _seconds(older_than) if older_than else ground.loaded.keep_s or None
    if keep_s is None and not ground.loaded.wipe_values:
        wrong_usage("Nothing says how long sagas are kept: pass --older-than 30d, or set keep_s under [saga].")
    if not dry_run:
        require_answerable(yes=yes, as_json=as_json)
    anyio.run(_prune, ground, keep_s, dry_run, yes, Output(as_json))


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text.strip())
    if found is None:
        wrong_usage(f'"{text[:20]}" is no age: say 30d, 12h, 90m or 60s.')
    return float(found[1]) * _UNITS[found[2]]


async def _prune(ground: Ground, keep_s: float | None, dry_run: bool, yes: bool, output: Output) -> None:  # noqa: FBT001 - for anyio.run
    done = _Done()
    async with open_keeping(ground) as log:
        plan = await _planned(log, ground, keep_s)
        if not output.as_json and plan.prune:
            now = time.time()
            rows = [(each.saga_id, each.phase, age(now - each.ended_at), str(each.events)) for each in plan.prune]
            output.table(("SAGA", "ENDED AS", "AGO", "EVENTS"), rows)
        if not dry_run:
            if plan.prune or plan.wipe:
                what = f"Remove {count(len(plan.prune), 'saga')}, and the values of {count(len(plan.wipe), 'saga')}"
                ask(f"{what} from {ground.database}? Nothing brings them back.", yes=yes)
                await _carry_out(log, plan, done, alerts_too=not ground.loaded.has_alerts)
            await _tidy_up(log, done)
    _tell(ground, plan, done, dry_run, output)
    if done.failed:
        raise typer.Exit(Exit.FAILED)


def _tell(ground: Ground, plan: _Plan, done: _Done, dry_run: bool, output: Output) -> None:  # noqa: FBT001 - as above
    if output.as_json:
        output.json(
            {
                "database": ground.database,
                "dry_run": dry_run,
                "prune": [each.saga_id for each in plan.prune],
                "wipe": [each.saga_id for each in plan.wipe],
                "pruned": [*done.pruned],
                "wiped": [*done.wiped],
                "left": {**done.left},
                "alerts_removed": done.alerts,
                "freed_bytes": done.freed,
                "remarks": [*done.remarks],
            }
        )
        return
    output.text(*(f"{saga_id} was left: {why}" for saga_id, why in done.left.items()), *done.remarks)
    if done.alerts:
        output.text(f"{count(done.alerts, 'alert')} went with them undelivered: the config has no [alerts] any more")
    gone, wiped = (len(plan.prune), len(plan.wipe)) if dry_run else (len(done.pruned), len(done.wiped))
    would = "would be " if dry_run else ""
    output.text(
        f"{count(gone, 'saga')} {would}removed, of {count(wiped, 'saga')} the values {would}wiped, in {ground.database}"
    )


async def _planned(log: LogKeeping, ground: Ground, keep_s: float | None) -> _Plan:
    now = time.time()
    window_s = ground.loaded.settings.revert_window_s
    old: list[Ended] = []
    if keep_s is not None:
        old += await log.ended(ground.realm, now - keep_s, committed_before=now - max(keep_s, window_s))
    stale: list[Ended] = []
    if ground.loaded.wipe_values:
        stale += await log.ended(ground.realm, now, committed_before=now - window_s, with_values=True)
    going = {each.saga_id for each in old}
    return _Plan(old, [each for each in stale if each.saga_id not in going])


async def _carry_out(log: LogKeeping, plan: _Plan, done: _Done, *, alerts_too: bool) -> None:
    """Do what was planned, up to where the log fails: what went until then is gone, and is told."""
    todo = [*((each, True) for each in plan.prune), *((each, False) for each in plan.wipe)]
    for n, (each, whole) in enumerate(todo, start=1):
        try:
            why = await (log.prune(each.saga_id, alerts_too=alerts_too) if whole else log.wipe(each.saga_id))
        except LogUnavailable as error:
            done.left[each.saga_id], done.failed = str(error), True
            if rest := len(todo) - n:
                done.remarks.append(f"{count(rest, 'more saga')} {'was' if rest == 1 else 'were'} not looked at")
            return
        if why:
            done.left[each.saga_id] = why
        elif whole:
            done.pruned.append(each.saga_id)
            done.alerts += each.alerts
        else:
            done.wiped.append(each.saga_id)


async def _tidy_up(log: LogKeeping, done: _Done) -> None:
    """Whatever went, now or by a server: leave nothing of it behind. What fails here is tried by the next prune."""
    try:
        done.freed = await log.free_space()
    except LogUnavailable:
        done.remarks.append("The space was not given back: the disk is full, or another program is in the way.")
    try:
        overwritten = await log.overwrite()
    except LogUnavailable:
        overwritten = False
    if not overwritten:
        done.remarks.append(
            "Something reads from the log, or cannot be written: what was removed may still stand in the write-ahead "
            "log beside it, until the next prune."
        )
