"""What `doctor` looks at in the saga log itself: the file, or the database of a server, each with the next move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from saga_mcp import app
from saga_mcp.cli.ground import Ground
from saga_mcp.cli.look import servers_words
from saga_mcp.cli.output import count
from saga_mcp.log.inspection import LogInspection, ServerInspection

Level: TypeAlias = Literal["ok", "warn", "error"]

_MB = 1_000_000
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


def log_trouble(ground: Ground) -> list[str]:
    """Return why the saga log of a config cannot be used; nothing where it can."""
    found = log_checks(ground, app.inspect_log(ground.loaded))
    return [f"{each.says}: {each.do}" for each in found if each.about == "log" and each.level == "error"]


def log_checks(ground: Ground, seen: LogInspection | ServerInspection) -> Iterator[Check]:
    """Look at the saga log as it was found."""
    if isinstance(seen, ServerInspection):
        yield from _server(ground, seen)
        return
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
    facts = f"schema {epoch}, journal {seen.journal}, {seen.size_bytes // 1000} kB with its -wal, SQLite {seen.sqlite}"
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


def _server(ground: Ground, seen: ServerInspection) -> Iterator[Check]:
    where, epoch, expected = ground.database, seen.epoch, seen.expected_epoch
    if seen.trouble:
        says, _, do = seen.trouble.partition("; nothing was stored and nothing was sent. ")
        yield Check("log", "error", says, do or "see docs/postgresql.md")
        return
    facts = f"PostgreSQL {seen.version}, {seen.size_bytes // 1000} kB"
    if epoch is None:
        yield Check("log", "ok", f"{where} has no saga log yet ({facts}); the first server makes it")
    elif epoch > expected:
        says = f"{where} was written by a newer saga-mcp (schema {epoch}, this one knows {expected})"
        yield Check("log", "error", says, "upgrade saga-mcp")
    elif epoch < expected:
        says = f"{where} is of schema {epoch}; the next server brings it to {expected}"
        yield Check(
            "log", "warn", says, "back it up with pg_dump, close servers of the older version, start one of this"
        )
    else:
        yield Check("log", "ok", f"{where}: schema {epoch}, {facts}")
    if seen.in_recovery:
        says = f"{where} is a standby, which takes no writes"
        yield Check("log", "error", says, "let [saga] database name the primary server")
    for setting in seen.undurable:
        says = f"the server runs with {setting} = off: a power cut may lose or damage the log"
        yield Check("log", "error", says, f"set {setting} = on in postgresql.conf")
    if seen.few_connections:
        says = f"{seen.connections} of {seen.most_connections} connections are in use"
        yield Check("log", "warn", says, "raise max_connections: each saga-mcp uses up to six")
    if epoch == expected:
        yield from _encryption(ground, seen)


def _encryption(ground: Ground, seen: LogInspection | ServerInspection) -> Iterator[Check]:
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
