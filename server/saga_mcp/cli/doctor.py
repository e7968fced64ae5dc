"""`doctor`: everything that has to be right for a saga to be driven, looked at one by one, each with the next move.

Goes on after an error wherever it can: who calls it has a problem already and wants to see all of it.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeAlias, cast

import anyio
import typer

from saga_mcp import app
from saga_mcp.cli.ground import Ground, open_log, stand_on, stdout_kept_clean
from saga_mcp.cli.items import outages, rows, waiting
from saga_mcp.cli.look import servers_words
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, count
from saga_mcp.cli.pausing import way_back, words
from saga_mcp.cli.timeline import utc_time
from saga_mcp.cli.views import outage_lines
from saga_mcp.domain.errors import LogError
from saga_mcp.domain.values import JsonObject
from saga_mcp.edge.clean import escape
from saga_mcp.log.inspection import LogInspection
from saga_mcp.log.outbox import OutboxCounts

Level: TypeAlias = Literal["ok", "warn", "error"]

_MB = 1_000_000
_ANSWERS_WITHIN_S = 30.0
_LITTLE_MB = 200
_NOTHING_MB = 10


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    about: str
    level: Level
    says: str
    do: str = ""
    """The next move; empty where there is none to make."""


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
    yield from _tools(ground)
    with stdout_kept_clean():
        upstreams = anyio.run(partial(app.look_at_upstreams, ground.loaded, within_s=_ANSWERS_WITHIN_S))
    yield from _upstreams(ground, upstreams)
    seen = app.inspect_log(ground.loaded)
    yield from _log(ground, seen)
    yield from _servers(ground, seen)
    yield from _receiver(ground)
    if seen.epoch == seen.expected_epoch and not seen.damage:  # to open any other would change it
        yield from anyio.run(_sagas, ground)


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


def _tools(ground: Ground) -> Iterator[Check]:
    for registry in ground.loaded.registries:
        offered = sum(tool.offered for tool in registry.tools)
        says = f"python.{registry.name} is imported: {count(len(registry.tools), 'tool')}, {offered} offered"
        yield Check("tools", "ok", f"{says}; every pair fits")
    if not ground.loaded.registries and not ground.loaded.upstreams:
        yield Check("tools", "warn", "the config names no tools", "add a [python.NAME] table; see `saga-mcp check`")
    for warning in ground.loaded.warnings:
        yield Check("tools", "warn", str(warning), "see `saga-mcp check`")


def _upstreams(ground: Ground, looked_at: tuple[app.UpstreamSeen, ...]) -> Iterator[Check]:
    """Each upstream was started once, and asked for its tools."""
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


def log_trouble(ground: Ground) -> list[str]:
    """Return why the saga log of a config cannot be used; nothing where it can."""
    found = _log(ground, app.inspect_log(ground.loaded))
    return [f"{each.says}: {each.do}" for each in found if each.about == "log" and each.level == "error"]


def _log(ground: Ground, seen: LogInspection) -> Iterator[Check]:
    where = ground.database
    yield from _place(ground, seen)
    if not seen.exists:
        if seen.alive:
            says = f"{where} was moved or deleted: {servers_words(list(seen.alive))}, and used it"
            yield Check("log", "error", says, "put it back, or restore a backup; its open sagas are in it")
        elif not seen.no_file and (seen.parent_exists or ground.loaded.database_is_default):
            yield Check("log", "ok", f"{where} is not there yet; the first server makes it")
        return
    if seen.mode & 0o077:
        yield Check("log", "warn", f"{where} can be read by others (mode {seen.mode:04o})", f"chmod 600 {where}")
    if seen.foreign:
        yield Check(
            "log", "error", f"{where} is another program's database", "set [saga] database to a file of its own"
        )
    elif seen.damage:
        yield Check(
            "log",
            "error",
            f"{where} is damaged: {seen.damage}",
            "stop every server, copy the file with its -wal and -shm, then restore a backup; never delete it",
        )
    elif seen.epoch is not None:
        yield from _schema(ground, seen)


def _place(ground: Ground, seen: LogInspection) -> Iterator[Check]:
    where = ground.database
    if seen.on_network:
        says = f"{where} lies on a network file system ({seen.file_system}), where SQLite can be corrupted"
        yield Check("log", "error", says, "set [saga] database to a local file")
    if not seen.exists and not seen.parent_exists and not ground.loaded.database_is_default:
        says = f"the folder of {where} is not there"
        yield Check("log", "error", says, "make it; if it is on a volume, mount that first")
    elif seen.no_file:
        yield Check("log", "error", f"{where} is no file", "set [saga] database to one")
    elif not seen.writable:
        yield Check("log", "error", f"{where} cannot be written by this user", "give this user the file and its folder")
    free_mb = seen.free_bytes // _MB
    level: Level = "error" if free_mb < _NOTHING_MB else "warn" if free_mb < _LITTLE_MB else "ok"
    on = f" on {seen.file_system}" if seen.file_system else ""
    yield Check("disk", level, f"{free_mb} MB free{on}", "" if level == "ok" else "free some space")


def _schema(ground: Ground, seen: LogInspection) -> Iterator[Check]:
    where, epoch, expected = ground.database, seen.epoch or 0, seen.expected_epoch
    facts = f"schema {epoch}, journal {seen.journal}, {seen.size_bytes // 1000} kB, SQLite {seen.sqlite}"
    if epoch > expected:
        says = f"{where} was written by a newer saga-mcp (schema {epoch}, this one knows {expected})"
        yield Check("log", "error", says, "upgrade saga-mcp")
    elif epoch < expected:
        says = f"{where} is of schema {epoch}; the next server brings it to {expected}, with a backup"
        yield Check("log", "warn", says, "close servers of the older version, then start one of this")
    else:
        yield Check("log", "ok", f"{where}: {facts}")
    if seen.journal != "wal":
        says = f"journal {seen.journal}: readers and writers stop each other"
        yield Check("log", "warn", says, "start a server: it switches to wal; if it stays so, another program opens it")
    if seen.locked:
        yield Check("log", "warn", f"{where} is locked for writing", "see which program has it open")
    if epoch == expected:
        yield from _encryption(ground, seen)


def _encryption(ground: Ground, seen: LogInspection) -> Iterator[Check]:
    """Which keys there are, and what is in clear; of keys only their names."""
    here = ground.loaded.keyring.ids
    clear = f"{count(seen.in_clear, 'saga')} with values in clear"
    for name in seen.keys:
        if name not in here:
            says = f"something is encrypted with key {name}, which [saga] encryption_keys lacks: no server starts"
            yield Check("keys", "error", says, "put that key there again; without it those values are lost")
    if not here:
        if not seen.keys:
            yield Check("keys", "ok", f"values are not encrypted: {clear}")
        return
    readable = [name for name in seen.keys if name in here]
    says = f"new values are encrypted with key {here[0]}; the log needs {', '.join(readable) or 'none yet'}"
    yield Check("keys", "ok", says)
    unused = [name for name in here[1:] if name not in seen.keys]
    if unused:
        yield Check("keys", "ok", f"nothing needs {', '.join(unused)} any more", "drop it from [saga] encryption_keys")
    if seen.in_clear:
        hint = "they go as sagas are wiped or pruned; a backup has them too"
        yield Check("keys", "warn", f"{clear}, from before there was a key", hint)


def _servers(ground: Ground, seen: LogInspection) -> Iterator[Check]:
    serving = [owner for owner in seen.alive if owner.serves == ground.realm]
    for owner in seen.alive:
        says = f"{servers_words([owner])}, {f'of the realm {owner.serves}' if owner.serves else 'a command'}"
        if owner.epoch != seen.expected_epoch:
            says = f"{says}, of another version (schema {owner.epoch}, not {seen.expected_epoch})"
            yield Check("server", "warn", says, "restart it")
        else:
            yield Check("server", "ok", says)
    if not serving:
        says = f"none of the realm {ground.realm} is alive, so nothing goes on"
        yield Check("server", "warn", says, "start your MCP client, or run `saga-mcp recover`")
    if seen.stale_owners:
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
        yield Check("alerts", "ok", f"{receiver.host} answers; what is sent there is {signed}")


def _kept(ground: Ground, alerts: OutboxCounts) -> Iterator[Check]:
    """What lies in the outbox."""
    if alerts.parked:
        yield Check("alerts", "warn", f"{count(alerts.parked, 'alert')} kept back", "saga-mcp attention")
    if not alerts.pending:
        return
    says = f"{count(alerts.pending, 'alert')} to be sent, the oldest since {utc_time(alerts.oldest_at or 0.0)}"
    if ground.loaded.alerts is None:
        yield Check("alerts", "warn", f"{says}, and nobody to send them to", "say [alerts] webhook in the config")
    elif ground.servers():
        yield Check("alerts", "ok", says)
    else:
        yield Check("alerts", "warn", f"{says}, and no server alive to send them", "saga-mcp recover")


async def _sagas(ground: Ground) -> list[Check]:
    try:
        async with open_log(ground) as log:
            found = await rows(log, ground.realm, open_only=True)
            items = await waiting(log, ground.realm)
            others = await log.realms()
            down = await outages(log, found)
            paused = await log.paused(ground.realm)
            due = len(await log.busy_sagas(ground.realm))
            alerts = await app.count_alerts(ground.loaded)
    except (LogError, CommandFailed) as error:
        return [Check("log", "error", str(error), "see above")]
    checks = [*_kept(ground, alerts), Check("sagas", "ok", f"{len(found)} open")]
    renamed = "if this realm was renamed: its old name, as name under [saga]"
    checks += [Check("sagas", "warn", says, renamed) for says in ground.left_alone(others)]
    if due and not ground.servers():
        says = f"{count(due, 'saga')} left with something due, and no server alive"
        checks.append(Check("sagas", "warn", says, "saga-mcp recover"))
    again = "start it by hand to see why it does not come up; it is tried by itself too"
    checks += [Check("sagas", "warn", says, again) for says in outage_lines(down)]
    checks += [Check("paused", "warn", words(each), way_back(each)) for each in paused.values()]
    if items:
        checks.append(Check("sagas", "warn", f"{count(len(items), 'item')} for a person", "saga-mcp attention"))
    return checks
