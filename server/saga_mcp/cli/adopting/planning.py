"""What adopting a client's file comes to: which servers, what is written, and what of them a person is told."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from platformdirs import user_config_path

from saga_mcp.cli import starter
from saga_mcp.cli.adopting.by_hand import Change, change
from saga_mcp.cli.adopting.classifying import classify
from saga_mcp.cli.adopting.client_file import ClientFile, Entry, backup_of
from saga_mcp.cli.adopting.existing import Existing, existing, reached_alike, with_addition
from saga_mcp.cli.adopting.filling import place_of
from saga_mcp.cli.adopting.references import References
from saga_mcp.cli.adopting.writing import Adopted, addition, saga_toml
from saga_mcp.cli.asking import ask_all
from saga_mcp.cli.output import CommandFailed, wrong_usage
from saga_mcp.cli.suggesting import suggestions_for
from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.upstream.asking import Answer, Silent
from saga_mcp.tools.upstream.declared import offered_name


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be written."""

    file: ClientFile
    config: Path
    was: bytes | None
    """What the config holds now; None: it is not there."""
    servers: tuple[Adopted, ...]
    stay: dict[str, str]
    referred: dict[str, str]
    """What the environment of our entry holds."""
    copied: tuple[str, ...]
    """Variables and headers whose values saga.toml says as they are, each as `SERVER.NAME`."""
    toml: str
    """What is added to the config, or the whole of a new one; empty: it has every server already."""
    content: bytes
    """What the config holds then."""
    client: bytes
    by_hand: Change | None
    """What a person has to change in the client's file; None: it is written."""


def plan(
    file: ClientFile, given: Path | None, skip: Sequence[str], *, trust_hints: bool, told: Callable[[str], None]
) -> Plan:
    """Ask the servers of a file, and return what adopting them would write.

    Args:
        file: The client's.
        given: Where saga.toml goes; None for the usual place.
        skip: Servers that stay where they are.
        trust_hints: Take a server's word for which of its tools only read.
        told: Called with a line for each step of what takes time.

    Raises:
        CommandFailed: there is nothing to adopt, or something is in the way.
    """
    config = _config_path(file, given)
    stay = _those_that_stay(file, skip)
    there = _existing(config)
    entries = [entry for entry in file.entries if entry.name not in stay]
    # Claude Desktop hands `${...}` on as it is written; the others fill it in.
    fills = file.client != "Claude Desktop"
    places = {entry.name: place_of(entry, file.folder, os.environ, client_fills=fills) for entry in entries}
    asked = {name: place for name, place in places.items() if not isinstance(place, Silent)}
    answers: dict[str, Answer] = {name: place for name, place in places.items() if isinstance(place, Silent)}
    answers |= anyio.run(ask_all, asked, told)
    stay |= {
        name: f"it could not be asked: {each.reason}" for name, each in answers.items() if isinstance(each, Silent)
    }
    cwd = None if file.folder.resolve() == config.parent else file.folder
    servers, referred, copied = _adopted(entries, answers, cwd, there, trust_hints=trust_hints)
    if not servers:
        reasons = "; ".join(f"{name}: {why}" for name, why in stay.items())
        raise CommandFailed(f"There is nothing to adopt. {reasons}. Nothing was changed.", code="nothing_to_adopt")
    new = [each for each in servers if not each.is_there]
    if there is None:
        realm = starter.realm_for(config.parent.name if file.is_of_a_project else file.client, secrets.token_hex(3))
        toml = saga_toml(realm, file.for_people, new)
        content = toml.encode()
    else:
        toml = addition(new)
        content = with_addition(there.raw, file.for_people, toml) if toml else there.raw
    adopted, entry = [each.entry for each in servers], _entry(file, config, referred)
    return Plan(
        file=file,
        config=config,
        was=there.raw if there else None,
        servers=servers,
        stay=stay,
        referred=referred,
        copied=copied,
        toml=toml,
        content=content,
        client=file.with_ours(adopted, entry),
        by_hand=change(file, adopted, entry) if file.has_comments else None,
    )


def _existing(config: Path) -> Existing | None:
    """Return what the config says already; None where it is not there.

    Raises:
        CommandFailed: nothing can be added to it.
    """
    hint = "Name another with --config. Nothing was changed."
    if not config.exists() and not config.is_symlink():
        return None
    if config.suffix == ".json":
        raise CommandFailed(f"{config} is already there, and only to TOML can be added. {hint}", code="already_there")
    try:
        return existing(config.read_bytes())
    except (OSError, ValueError) as error:
        message = f"{config} is already there and cannot be added to: {error}. Mend it, or name another with --config. "
        raise CommandFailed(f"{message}Nothing was changed.", code="already_there") from error


def _those_that_stay(file: ClientFile, skip: Sequence[str]) -> dict[str, str]:
    """Return the servers that are not even asked, and why.

    Raises:
        CommandFailed: something is in the way.
    """
    names = [entry.name for entry in file.entries]
    for name in skip:
        if name not in names:
            wrong_usage(f"{file.path} has no server {name}; it has {', '.join(names)}. Nothing was changed.")
    if any(entry.is_ours for entry in file.entries):
        again = starter.command_line(["saga-mcp", "adopt", str(file.path), "--revert"])
        raise CommandFailed(f"{file.path} has saga-mcp in it already. To begin again: {again}", code="already_adopted")
    backup = backup_of(file.path)
    if backup.exists() or backup.is_symlink():
        raise CommandFailed(
            f"{backup} is already there, from before. Move it away. Nothing was changed.", code="already_there"
        )
    reasons = {entry.name: "you said --skip" if entry.name in skip else entry.unusable for entry in file.entries}
    return {name: why for name, why in reasons.items() if why}


def _adopted(
    entries: Sequence[Entry],
    answers: dict[str, Answer],
    cwd: Path | None,
    there: Existing | None,
    *,
    trust_hints: bool,
) -> tuple[tuple[Adopted, ...], dict[str, str], tuple[str, ...]]:
    """Return the servers that answered, what the environment of our entry has to hold for them, and what is copied."""
    known = _those_there(entries, cwd, there)
    referred = {name: value for values in known.values() for name, value in values.items()}
    references = References({**dict.fromkeys(there.variables if there else (), ""), **referred})
    taken = [*(there.names if there else ())]
    servers: list[Adopted] = []
    copied: list[str] = []
    for entry in entries:
        answer = answers[entry.name]
        if isinstance(answer, Silent):
            continue
        is_there = entry.name in known
        name = _upstream_name(entry.name, [] if is_there else taken)
        taken.append(name)
        keys: JsonObject = {}
        if not is_there:
            reached = references.reachable(name, entry, cwd)
            referred |= reached.referred
            copied += (f"{entry.name}.{each}" for each in reached.copied)
            keys = reached.keys
        words = [entry.command, *entry.args, entry.url]
        classified = classify(answer, words, trust_hints=trust_hints)
        servers.append(Adopted(name, entry.name, keys, classified, suggestions_for(words), is_there))
    return tuple(servers), referred, tuple(copied)


def _those_there(entries: Sequence[Entry], cwd: Path | None, there: Existing | None) -> dict[str, dict[str, str]]:
    """Return the entries that the config has already, each with what the environment has to hold for it."""
    found: dict[str, dict[str, str]] = {}
    for entry in entries:
        written = there.upstreams.get(_upstream_name(entry.name, ())) if there else None
        referred = None if written is None else reached_alike(written, entry, str(cwd or ""))
        if referred is not None:
            found[entry.name] = referred
    return found


def _entry(file: ClientFile, config: Path, referred: dict[str, str]) -> JsonObject:
    program, *arguments = starter.own_command(sys.argv[0])
    typed = any("type" in each.written for each in file.entries)
    entry: JsonObject = {"type": "stdio"} if typed else {}
    entry |= {"command": program, "args": [*arguments, "serve", "--config", str(config)]}
    if referred:
        entry["env"] = {**referred}
    return entry


def _config_path(file: ClientFile, given: Path | None) -> Path:
    if given is not None:
        return given.expanduser().resolve()
    folder = file.folder if file.is_of_a_project else user_config_path("saga-mcp", appauthor=False)
    return (folder / "saga.toml").resolve()


def _upstream_name(entry: str, taken: Sequence[str]) -> str:
    """A name whose tools agents see under a prefix of their own."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", entry).strip("-") or "server"
    prefixes = {offered_name(each, "") for each in taken}
    while offered_name(name, "") in prefixes:
        name += "-2"
    return name
