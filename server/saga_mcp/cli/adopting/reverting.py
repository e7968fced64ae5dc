"""Takes an adoption back: the client's servers, and what was added to a saga.toml that was there before.

The client's file first, since that is what the person asked for; what cannot be taken out of saga.toml then is told.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import anyio

from saga_mcp.cli.adopting.client_file import ClientFile, ClientFileUnusable, read_backup, replace_file
from saga_mcp.cli.adopting.existing import find_addition
from saga_mcp.cli.ground import Ground, open_log, stand_on
from saga_mcp.cli.items import rows
from saga_mcp.cli.output import CommandFailed, count


@dataclass(frozen=True, slots=True)
class Reverted:
    """What became of it, or would."""

    servers: tuple[str, ...]
    config: Path | None
    """Out of which what was added is taken; None: none was, or it stays."""
    stays: str
    """Why something that was added stays; empty where nothing does."""


def revert(file: ClientFile, *, dry_run: bool) -> Reverted:
    """Put the servers of the backup back in the place of our entry; what was added since stays.

    Raises:
        CommandFailed: there is no backup, or it could not be written.
    """
    ours = [entry for entry in file.entries if entry.is_ours]
    if not ours:
        raise CommandFailed(f"{file.path} has no saga-mcp in it. Nothing was changed.", code="not_adopted")
    try:
        before = read_backup(file)
    except ClientFileUnusable as error:
        raise CommandFailed(f"{error}. Nothing was changed.", code="no_backup") from error
    config, without, stays = _addition(ours[0].args, file)
    try:
        if not dry_run:
            replace_file(file.path, file.without_ours(before))
            before.path.unlink()
    except OSError as error:
        raise CommandFailed(f"{error}. Nothing was changed.", code="not_written") from error
    try:
        if config is not None and not dry_run:
            replace_file(config, without)
    except OSError as error:
        config, stays = None, f"{config} cannot be written: {error}"
    return Reverted(tuple(entry.name for entry in before.entries), config, stays)


def _addition(arguments: list[str], file: ClientFile) -> tuple[Path | None, bytes, str]:
    """Return the config that was added to, what it is without that, and why that has to stay if it does."""
    given = [after for word, after in itertools.pairwise(arguments) if word == "--config"]
    try:
        config = Path(given[0]).resolve() if given else None
        found = find_addition(config.read_bytes(), file.for_people) if config else None
    except OSError:
        return None, b"", ""
    if config is None or found is None:
        return None, b"", ""
    if not found.is_as_written:
        return None, b"", f"what was added to {config} was changed since: take out by hand what you do not need"
    if open_sagas := _open_sagas(config):
        return None, b"", f"what was added to {config} stays: {open_sagas}, which may need it to be undone"
    return config, found.without, ""


def _open_sagas(config: Path) -> str:
    """How many there are, in words; empty: none."""
    try:
        ground = stand_on(config, code=False)
        found = anyio.run(_count, ground) if ground.database_exists() else 0
    except CommandFailed as error:
        return f"its log cannot be read ({error})"
    return f"it has {count(found, 'open saga')}" if found else ""


async def _count(ground: Ground) -> int:
    async with open_log(ground) as log:
        return len(await rows(log, ground.realm, open_only=True))
