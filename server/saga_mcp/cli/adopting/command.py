"""The course of the command: read the client's file, ask the servers, tell, ask the person, write.

Nothing is written before a person has said yes.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from saga_mcp.cli import starter
from saga_mcp.cli.adopting import reporting
from saga_mcp.cli.adopting.applying import write
from saga_mcp.cli.adopting.client_file import (
    OURS,
    ClientFile,
    ClientFileUnusable,
    backup_of,
    default_client_file,
    read_client_file,
)
from saga_mcp.cli.adopting.planning import Plan, plan
from saga_mcp.cli.adopting.reverting import Reverted, revert
from saga_mcp.cli.options import ask
from saga_mcp.cli.output import CommandFailed, Exit, Output, count
from saga_mcp.domain.values import JsonObject
from saga_mcp.edge.clean import escape


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of the command."""

    config: Path | None
    skip: Sequence[str]
    trust_hints: bool
    dry_run: bool
    revert: bool
    yes: bool


def run(client_config: Path | None, project: Path, wishes: Wishes, output: Output) -> None:
    """Adopt the servers of a client's file, or take that back.

    Args:
        client_config: The file; None for Claude Desktop's.
        project: Whose servers are meant, where one file holds those of many projects.
        wishes: The options.
        output: Where the answer goes.

    Raises:
        CommandFailed: nothing was changed; the message says why.
    """
    try:
        path = client_config or default_client_file(os.environ, Path.home())
        file = read_client_file(path, project.expanduser().resolve())
    except ClientFileUnusable as error:
        raise CommandFailed(f"{error}. Nothing was changed.", code="unreadable", exit_code=Exit.USAGE) from error
    (_revert if wishes.revert else _adopt)(file, wishes, output)


def _adopt(file: ClientFile, wishes: Wishes, output: Output) -> None:
    servers = count(len(file.entries), "server")
    output.remark(f"{file.client} config, {servers}. Each is started to list its tools; no tool is called.")
    planned = plan(file, wishes.config, wishes.skip, trust_hints=wishes.trust_hints, told=output.remark)
    if not output.as_json:
        _tell(planned, output)
    if not wishes.dry_run:
        if question := _question(planned):
            ask(question, yes=wishes.yes)
        write(planned)
    if output.as_json:
        output.json(_json(planned, written=not wishes.dry_run))
        return
    if wishes.dry_run:
        output.text(planned.toml, "Nothing was written. Without --dry-run it is, after you are asked.")
    else:
        output.text(_wrote(planned))
    if planned.by_hand is not None:
        output.text("", *planned.by_hand.for_people())
    elif not wishes.dry_run:
        back = starter.command_line(["saga-mcp", "adopt", str(file.path), "--revert"])
        output.text(
            f"Wrote {file.path}; as it was: {backup_of(file.path)}",
            f"Restart {file.client} completely. Back: {back}",
        )


def _question(planned: Plan) -> str:
    """What a person says yes to; empty where nothing is written."""
    config = "Write saga.toml" if planned.was is None else f"Add to {planned.config}" if planned.toml else ""
    if planned.by_hand is not None:
        return f"{config}?" if config else ""
    return f"{f'{config} and' if config else 'Write'} the client config (a backup is kept)?"


def _wrote(planned: Plan) -> str:
    if planned.was is None:
        return f"Wrote {planned.config}"
    return f"Added to {planned.config}" if planned.toml else f"{planned.config} has them already and stays as it is"


def _revert(file: ClientFile, wishes: Wishes, output: Output) -> None:
    back = revert(file, dry_run=True)
    if not wishes.dry_run:
        ask(f"Put back {_named(back.restored.servers)} in {file.path}?", yes=wishes.yes)
        back = revert(file, dry_run=False)
    if not output.as_json:
        output.text(*_told_of(back, file.path, dry_run=wishes.dry_run))
        return
    restored = back.restored
    output.json(
        {
            "client_config": str(file.path),
            "put_back": [*restored.servers],
            "renewed": [*restored.renewed],
            "not_as_before": [*restored.not_as_before],
            "as_before": str(back.as_before) if back.as_before else None,
            "dropped": [*restored.dropped],
            "as_adopted": str(back.as_adopted) if back.as_adopted else None,
            "taken_out_of": str(back.config) if back.config else None,
            "stays": back.stays or None,
            "written": not wishes.dry_run,
        }
    )


def _told_of(back: Reverted, path: Path, *, dry_run: bool) -> Iterator[str]:
    restored = back.restored
    done, took, kept = ("Would put back", "Would take", "would keep") if dry_run else ("Put back", "Took", "keeps")
    yield f"{done} {_named(restored.servers)} in {path}."
    if restored.renewed:
        yield (
            f"{_named(restored.renewed)}: with what was changed since in the env of saga-mcp. "
            f"{back.as_before} {kept} what was there before."
        )
    if others := [each for each in restored.not_as_before if each not in restored.renewed]:
        yield f"Not put back, since changed: {_named(others)}. {back.as_before} {kept} it as it was."
    if restored.dropped:
        yield f"Taken out with saga-mcp: {_named(restored.dropped)}. {back.as_adopted} {kept} it as it was."
    if back.config:
        yield f"{took} what was added out of {back.config}; the saga log stays."
    elif back.stays:
        yield f"{back.stays[0].upper()}{back.stays[1:]}."
    else:
        yield "saga.toml and its saga log stay as they are."


def _named(names: Sequence[str]) -> str:
    return ", ".join(escape(name) for name in names) or "nothing"


def _tell(plan: Plan, output: Output) -> None:
    output.table(reporting.COLUMNS, reporting.rows(plan.servers, plan.stay))
    output.text("", *reporting.details(plan.servers))
    if plan.referred:
        output.text(
            "", f"{', '.join(plan.referred)}: the value stays in the client config; saga.toml says ${{env:NAME}}."
        )
    if plan.copied:
        output.text("", f"Copied into saga.toml in clear: {escape(', '.join(plan.copied))}.")
    if rules := list(reporting.renamed(plan.servers, OURS, _permitted(plan.file.folder))):
        output.text("", "Tool names change; these permission rules need renaming:", *rules)
    output.text("")


def _permitted(folder: Path) -> list[str]:
    """Permission rules of Claude Code that name a tool of a server; they are only looked at."""
    found: dict[str, None] = {}
    for place in (folder / ".claude" / "settings.json", folder / ".claude" / "settings.local.json"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found |= dict.fromkeys(re.findall(r"\"(mcp__[^\"()]+)", place.read_text(encoding="utf-8")))
    return list(found)


def _json(plan: Plan, *, written: bool) -> JsonObject:
    return {
        "client": plan.file.client,
        "client_config": str(plan.file.path),
        "config": str(plan.config),
        "config_was_there": plan.was is not None,
        "backup": None if plan.by_hand else str(backup_of(plan.file.path)),
        "by_hand": plan.by_hand.for_programs() if plan.by_hand else None,
        "written": written,
        "servers": reporting.as_json(plan.servers, plan.stay),
        "referred": [*plan.referred],
        "copied": [*plan.copied],
        "saga_toml": plan.toml,
    }
