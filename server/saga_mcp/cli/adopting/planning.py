"""What adopting a client's file comes to: which servers, what is written, and what of them a person is told."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from platformdirs import user_config_path

from saga_mcp.cli import starter
from saga_mcp.cli.adopting.asking import Answer, Silent, ask_all
from saga_mcp.cli.adopting.classifying import classify
from saga_mcp.cli.adopting.client_file import ClientFile, Entry, backup_of
from saga_mcp.cli.adopting.references import References
from saga_mcp.cli.adopting.suggesting import suggestions_for
from saga_mcp.cli.adopting.writing import Adopted, saga_toml
from saga_mcp.cli.output import CommandFailed, wrong_usage
from saga_mcp.domain.values import JsonObject


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be written."""

    file: ClientFile
    config: Path
    servers: tuple[Adopted, ...]
    stay: dict[str, str]
    referred: dict[str, str]
    """What the environment of our entry holds."""
    toml: str
    client: bytes


def plan(file: ClientFile, given: Path | None, skip: Sequence[str], *, trust_hints: bool) -> Plan:
    """Ask the servers of a file, and return what adopting them would write.

    Args:
        file: The client's.
        given: Where saga.toml goes; None for the usual place.
        skip: Servers that stay where they are.
        trust_hints: Take a server's word for which of its tools only read.

    Raises:
        CommandFailed: there is nothing to adopt, or something is in the way.
    """
    config = _config_path(file, given)
    stay = _those_that_stay(file, config, skip)
    entries = [entry for entry in file.entries if entry.name not in stay]
    # Claude Desktop hands `${...}` on as it is written; the others fill it in.
    fills = file.client != "Claude Desktop"
    answers = anyio.run(lambda: ask_all(entries, file.folder, os.environ, client_fills=fills))
    stay |= {
        name: f"it could not be asked: {each.reason}" for name, each in answers.items() if isinstance(each, Silent)
    }
    cwd = None if file.folder == config.parent else file.folder
    servers, referred = _adopted(entries, answers, cwd, trust_hints=trust_hints)
    if not servers:
        reasons = "; ".join(f"{name}: {why}" for name, why in stay.items())
        raise CommandFailed(f"There is nothing to adopt. {reasons}. Nothing was changed.", code="nothing_to_adopt")
    realm = starter.realm_for(config.parent.name if file.is_of_a_project else file.client, secrets.token_hex(3))
    return Plan(
        file=file,
        config=config,
        servers=servers,
        stay=stay,
        referred=referred,
        toml=saga_toml(realm, f"the {file.client} config {file.path}", servers),
        client=file.with_ours([each.entry for each in servers], _entry(file, config, referred)),
    )


def _those_that_stay(file: ClientFile, config: Path, skip: Sequence[str]) -> dict[str, str]:
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
    for path in (config, backup_of(file.path)):
        if path.exists() or path.is_symlink():
            hint = " Name another with --config." if path == config else ""
            raise CommandFailed(f"{path} is already there.{hint} Nothing was changed.", code="already_there")
    reasons = {entry.name: "you said --skip" if entry.name in skip else entry.unusable for entry in file.entries}
    return {name: why for name, why in reasons.items() if why}


def _adopted(
    entries: Sequence[Entry], answers: dict[str, Answer], cwd: Path | None, *, trust_hints: bool
) -> tuple[tuple[Adopted, ...], dict[str, str]]:
    """Return the servers that answered, and what the environment of our entry has to hold for them."""
    references = References()
    servers: list[Adopted] = []
    referred: dict[str, str] = {}
    for entry in entries:
        answer = answers[entry.name]
        if isinstance(answer, Silent):
            continue
        name = _upstream_name(entry.name, [each.name for each in servers])
        reached = references.reachable(name, entry, cwd)
        referred |= reached.referred
        words = [entry.command, *entry.args, entry.url]
        classified = classify(answer, words, trust_hints=trust_hints)
        servers.append(Adopted(name, entry.name, reached.keys, classified, suggestions_for(words)))
    return tuple(servers), referred


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
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", entry).strip("-") or "server"
    while name in taken:
        name += "-2"
    return name
