"""`doctor`: everything that has to be right for a saga to be driven, looked at one by one, each with the next move.

Goes on after an error wherever it can: who calls it has a problem already and wants to see all of it.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import cast

import anyio
import typer

from saga_mcp import app
from saga_mcp.cli.ground import Ground, open_log, stand_on, stdout_kept_clean
from saga_mcp.cli.hanging import hanging
from saga_mcp.cli.items import outages, rows, waiting
from saga_mcp.cli.log_checks import Check, Level, log_checks
from saga_mcp.cli.look import servers_words
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, count
from saga_mcp.cli.pausing import way_back, words
from saga_mcp.cli.timeline import utc_time
from saga_mcp.cli.views import outage_lines
from saga_mcp.config.places import is_known_by_name_only
from saga_mcp.domain.errors import LogError
from saga_mcp.domain.hosts import host_name
from saga_mcp.domain.values import JsonObject
from saga_mcp.edge.clean import escape
from saga_mcp.log.inspection import LogInspection, ServerInspection
from saga_mcp.log.outbox import OutboxCounts
from saga_mcp.log.port import SagaLog

_ANSWERS_WITHIN_S = 30.0


def doctor(config: ConfigOption = None, *, as_json: JsonOption = False) -> None:
    """Look for what could keep sagas from being driven: config, tools, saga log, servers. Changes nothing.

    Example: saga-mcp doctor
    """
    checks = [*_versions(), *_everything(config)]
    errors = sum(check.level == "error" for check in checks)
    warnings = sum(check.level == "warn" for check in checks)
    output = Output(as_json)
    if as_json:
        shown: list[JsonObject] = [
            {"about": check.about, "level": check.level, "says": check.says, "do": check.do} for check in checks
        ]
        output.json({"checks": [*shown], "errors": errors, "warnings": warnings})
    else:
        for check in checks:
            output.text(f"{check.level:5}  {check.about:9}  {escape(check.says)}")
            if check.do:
                output.text(f"{'':16}  -> {escape(check.do)}")
        output.text(f"{count(errors, 'error')}, {count(warnings, 'warning')}")
    if errors:
        raise typer.Exit(Exit.FAILED)


def _versions() -> Iterator[Check]:
    says = f"saga-mcp {version('saga-mcp')}, mcp {version('mcp')}, Python {platform.python_version()}, {sys.platform}"
    yield Check("versions", "ok", says)


def _everything(config: Path | None) -> Iterator[Check]:
    try:
        ground = stand_on(config)
    except CommandFailed as error:
        yield from _config_trouble(error)
        return
    yield from _config(ground)
    yield from _looked("machine", lambda: _machine(ground))
    yield from _looked("tools", lambda: _tools(ground))
    yield from _looked("upstreams", lambda: _upstreams(ground))
    seen = app.inspect_log(ground.loaded)
    yield from _looked("log", lambda: log_checks(ground, seen))
    yield from _looked("server", lambda: _servers(ground, seen))
    yield from _looked("alerts", lambda: _receiver(ground))
    if seen.epoch == seen.expected_epoch and not seen.damage:  # to open any other would change it
        yield from _looked("log", lambda: anyio.run(_in_log, ground))


def _looked(about: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """What one look finds. One that fails is a finding too, and hides none of the others."""
    try:
        yield from look()
    except Exception as error:  # noqa: BLE001 - whoever calls doctor has a problem already, and is to see all of it
        yield _unseen(about, error)


def _unseen(about: str, error: Exception) -> Check:
    if isinstance(error, (LogError, CommandFailed)):
        return Check("log", "error", str(error), "see what else is said of the log, the keys and the disk")
    says = f"this could not be looked at: {type(error).__name__}: {error}"
    return Check(about, "error", says, "the other checks do not depend on it; if it stays so, report it")


def _config_trouble(error: CommandFailed) -> Iterator[Check]:
    if error.code != "config_invalid":
        message, _, hint = str(error).partition("\n")
        yield Check("config", "error", message, hint)
        return
    for level, kind in (("error", "errors"), ("warn", "warnings")):
        for problem in cast("list[dict[str, str]]", error.details[kind]):
            says = f"{problem['key']}: {problem['message']}" if problem["key"] else problem["message"]
            yield Check("config", cast("Level", level), says, f"edit {error.details['config']}")


def _config(ground: Ground) -> Iterator[Check]:
    yield Check("config", "ok", str(ground.path))
    if ground.realm_moves:
        says = f"realm {ground.realm}, made from the path of the config: in a moved folder it is another"
        yield Check("realm", "warn", says, f'write name = "{ground.realm}" under [saga]')
    else:
        yield Check("realm", "ok", ground.realm)


def _machine(ground: Ground) -> Iterator[Check]:
    """As what this machine is known, where that makes a difference."""
    host = ground.loaded.settings.host
    own = [f"upstreams.{each.name}" for each in ground.loaded.upstreams if each.scope == "host"]
    if host and own:
        says = f"host {host_name(host)}: it alone undoes what {', '.join(own)} did here"
        if is_known_by_name_only(host):
            says = f"{says}; it has no id but its name, so under another name it is another machine"
            yield Check("machine", "warn", says, 'set SAGA_MCP_HOST here, or say scope = "shared"')
        else:
            yield Check("machine", "ok", says)


def _tools(ground: Ground) -> Iterator[Check]:
    for registry in ground.loaded.registries:
        offered = sum(tool.offered for tool in registry.tools)
        says = f"python.{registry.name} is imported: {count(len(registry.tools), 'tool')}, {offered} offered"
        yield Check("tools", "ok", f"{says}; every pair fits")
    if not ground.loaded.registries and not ground.loaded.upstreams:
        yield Check("tools", "warn", "the config names no tools", "add a [python.NAME] table; see `saga-mcp check`")
    for warning in ground.loaded.warnings:
        yield Check("tools", "warn", str(warning), "see `saga-mcp check`")


def _upstreams(ground: Ground) -> Iterator[Check]:
    """Each upstream is started once, and asked for its tools."""
    with stdout_kept_clean():
        looked_at = anyio.run(partial(app.look_at_upstreams, ground.loaded, within_s=_ANSWERS_WITHIN_S))
    for declared, seen in zip(ground.loaded.upstreams, looked_at, strict=True):
        name = f"upstreams.{seen.name}"
        if seen.tools is None:
            hint = "start it by hand to see why; until it comes up its tools answer upstream_down, and undos wait"
            yield Check("upstreams", "error", f"{name} does not come up: {seen.reason}", hint)
            continue
        offered = sum(tool.listed for tool in declared.tools)
        yield Check(
            "upstreams", "ok", f"{name} answers: {count(len(seen.tools), 'tool')}, {offered} declared and offered"
        )
        if seen.misfit is not None:
            yield Check("upstreams", "warn", f"{name}: {seen.misfit.says}", seen.misfit.do)
        for left_out, why in seen.left_out.items():
            says = f"{name}: its tool {left_out} cannot be read and is left out: {why}"
            yield Check("upstreams", "warn", says, "tell whoever made the server; its other tools work")
        for tool in declared.tools:
            if tool.tool not in seen.tools and tool.tool not in seen.left_out:
                hint = f'drop [tools."{seen.name}.{tool.tool}"], or see which version of the server has it'
                yield Check("upstreams", "error", f"{name} has no tool {tool.tool}", hint)


def _servers(ground: Ground, seen: LogInspection | ServerInspection) -> Iterator[Check]:
    if isinstance(seen, ServerInspection) and seen.trouble:
        return  # nobody could be asked
    alive = ground.alive() if isinstance(seen, ServerInspection) else seen.alive
    serving = [owner for owner in alive if owner.serves == ground.realm]
    for owner in alive:
        says = f"{servers_words([owner])}, {f'of the realm {owner.serves}' if owner.serves else 'a command'}"
        if owner.epoch != seen.expected_epoch:
            says = f"{says}, of another version (schema {owner.epoch}, not {seen.expected_epoch})"
            yield Check("server", "warn", says, "restart it")
        else:
            yield Check("server", "ok", says)
    if not serving:
        says = f"none of the realm {ground.realm} is alive, so nothing goes on"
        yield Check("server", "warn", says, "start your MCP client, or run `saga-mcp recover`")
    if isinstance(seen, LogInspection) and seen.stale_owners:
        says = f"{count(seen.stale_owners, 'lock')} of dead processes; the next one that starts takes over their work"
        yield Check("server", "ok", says)


def _receiver(ground: Ground) -> Iterator[Check]:
    """Whether the receiver of alerts is there; nothing is told to it."""
    receiver = ground.loaded.alerts
    if receiver is None:
        yield Check("alerts", "ok", "nobody is told what waits for a person: the config has no [alerts]")
        return
    signed = "signed" if receiver.secret else "not signed"
    with stdout_kept_clean():
        trouble = anyio.run(app.reach_receiver, receiver)
    if trouble:
        hint = "mend it or [alerts] webhook; meanwhile alerts are kept, and sent again and again"
        yield Check("alerts", "warn", f"{receiver.host} does not answer: {trouble}", hint)
    else:
        yield Check("alerts", "ok", f"{receiver.host} can be reached; what is sent there is {signed}")


def _kept(ground: Ground, alerts: OutboxCounts) -> Iterator[Check]:
    """What lies in the outbox."""
    if alerts.parked:
        yield Check("alerts", "warn", f"{count(alerts.parked, 'alert')} kept back", "saga-mcp attention")
    if not alerts.pending:
        return
    says = f"{count(alerts.pending, 'alert')} to be sent, the oldest since {utc_time(alerts.oldest_at or 0.0)}"
    if alerts.failing:
        tries = f"{count(alerts.most_attempts, 'attempt')} of one"
        says = f"{says}; {alerts.failing} not acknowledged with a 2xx by now, after up to {tries}"
    if ground.loaded.alerts is None:
        yield Check("alerts", "warn", f"{says}, and nobody to send them to", "say [alerts] webhook in the config")
    elif not ground.servers():
        yield Check("alerts", "warn", f"{says}, and no server alive to send them", "saga-mcp recover")
    elif alerts.failing:
        hint = "see alert_not_acknowledged in the server's log for what it answers, and mend it or [alerts] webhook"
        yield Check("alerts", "warn", says, hint)
    else:
        yield Check("alerts", "ok", says)


async def _in_log(ground: Ground) -> list[Check]:
    checks: list[Check] = []
    async with open_log(ground) as log:
        for about, look in _OF_THE_LOG:
            try:
                found = await look(ground, log)
            except Exception as error:  # noqa: BLE001 - as in `_looked`
                found = [_unseen(about, error)]
            # What keeps all of them from being looked at is said once.
            checks += [each for each in found if all(each.says != other.says for other in checks)]
    return checks


async def _alerts_left(ground: Ground, log: SagaLog) -> list[Check]:
    del log  # its readers know nothing of the outbox
    return [*_kept(ground, await app.count_alerts(ground.loaded))]


async def _open_sagas(ground: Ground, log: SagaLog) -> list[Check]:
    found = await rows(log, ground.realm, open_only=True)
    checks = [Check("sagas", "ok", f"{len(found)} open")]
    again = "start it by hand to see why it does not come up; it is tried by itself too"
    return [*checks, *(Check("sagas", "warn", says, again) for says in outage_lines(await outages(log, found)))]


async def _left_alone(ground: Ground, log: SagaLog) -> list[Check]:
    renamed = "if this realm was renamed: its old name, as name under [saga]"
    return [Check("sagas", "warn", says, renamed) for says in ground.left_alone(await log.realms())]


async def _due(ground: Ground, log: SagaLog) -> list[Check]:
    due = len(await log.busy_sagas(ground.realm))
    if not due or ground.servers():
        return []
    says = f"{count(due, 'saga')} left with something due, and no server alive"
    return [Check("sagas", "warn", says, "saga-mcp recover")]


async def _overdue(ground: Ground, log: SagaLog) -> list[Check]:
    hint = "see what it says there; then `saga-mcp attention`"
    return [Check("server", "warn", each.line(), hint) for each in await hanging(ground, log)]


async def _paused(ground: Ground, log: SagaLog) -> list[Check]:
    paused = await log.paused(ground.realm)
    return [Check("paused", "warn", words(each), way_back(each)) for each in paused.values()]


async def _items(ground: Ground, log: SagaLog) -> list[Check]:
    items = await waiting(log, ground.realm)
    return [Check("sagas", "warn", f"{count(len(items), 'item')} for a person", "saga-mcp attention")] if items else []


_OF_THE_LOG: tuple[tuple[str, Callable[[Ground, SagaLog], Awaitable[list[Check]]]], ...] = (
    ("alerts", _alerts_left),
    ("sagas", _open_sagas),
    ("sagas", _left_alone),
    ("sagas", _due),
    ("server", _overdue),
    ("paused", _paused),
    ("sagas", _items),
)
"""What is looked at in the log, one by one."""
