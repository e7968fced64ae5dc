"""Takes an adoption back: the client's servers, and what was added to a saga.toml that was there before.

The client's file first, since that is what the person asked for; what cannot be taken out of saga.toml then is told.
No file is deleted that holds something which is in no other: it is kept under a name that is in nobody's way.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from saga_mcp.cli.adopting.applying import require_unchanged, unwritable
from saga_mcp.cli.adopting.client_file import (
    ClientFile,
    ClientFileUnusable,
    Entry,
    backup_of,
    free_name,
    read_backup,
    replace_file,
)
from saga_mcp.cli.adopting.existing import existing, find_addition
from saga_mcp.cli.adopting.restoring import Restored, our_entry, restore
from saga_mcp.cli.ground import Ground, open_log, stand_on
from saga_mcp.cli.items import rows
from saga_mcp.cli.output import CommandFailed, count
from saga_mcp.domain.values import JsonObject


@dataclass(frozen=True, slots=True)
class Reverted:
    """What became of it, or would."""

    restored: Restored
    as_before: Path | None
    """Where what is not as before is kept; None: all of it is."""
    as_adopted: Path | None
    """Where what of our entry was dropped is kept; None: nothing was."""
    config: Path | None
    """Out of which what was added is taken; None: none was, or it stays."""
    stays: str
    """Why something that was added stays; empty where nothing does."""


def revert(file: ClientFile, *, dry_run: bool) -> Reverted:
    """Put the servers of the backup back in the place of our entry; what was added since stays.

    Raises:
        CommandFailed: there is no backup, or it could not be written.
    """
    ours = our_entry(file)
    if ours is None:
        backup = backup_of(file.path)
        kept = f" What it was before it was adopted is in {backup}." if backup.exists() else ""
        raise CommandFailed(f"{file.path} has no saga-mcp in it.{kept} Nothing was changed.", code="not_adopted")
    if file.has_comments:
        raise CommandFailed(_by_hand(file, ours), code="has_comments")
    try:
        before = read_backup(file)
    except ClientFileUnusable as error:
        raise CommandFailed(f"{error}. Nothing was changed.", code="no_backup") from error
    named = _config_of(ours)
    restored = restore(file, ours, before, _upstreams(named), _cwd(file, named))
    as_before = free_name(before.path) if restored.not_as_before else None
    as_adopted = free_name(file.path.with_name(f"{file.path.name}.with-saga-mcp")) if restored.dropped else None
    config, without, stays = _addition(named, file)
    if dry_run:
        return Reverted(restored, as_before, as_adopted, config, stays)
    _write(file, before, restored, as_before, as_adopted)
    try:
        if config is not None:
            replace_file(config, without)
    except OSError as error:
        config, stays = None, f"{config} cannot be written: {error}"
    return Reverted(restored, as_before, as_adopted, config, stays)


def _write(
    file: ClientFile, before: ClientFile, restored: Restored, as_before: Path | None, as_adopted: Path | None
) -> None:
    try:
        if as_adopted is not None:
            replace_file(as_adopted, file.raw)
        require_unchanged(file)
        replace_file(file.path, restored.content)
    except (OSError, CommandFailed) as error:
        with contextlib.suppress(OSError):
            if as_adopted is not None:
                as_adopted.unlink(missing_ok=True)
        if isinstance(error, CommandFailed):
            raise
        raise CommandFailed(unwritable(file.path, error), code="not_written") from error
    try:
        if as_before is None:
            before.path.unlink()
        else:
            before.path.rename(as_before)
    except OSError as error:
        raise CommandFailed(
            f"{file.path} is written, and {before.path} is still there: {error}", code="not_written"
        ) from error


def _by_hand(file: ClientFile, ours: Entry) -> str:
    backup = backup_of(file.path)
    put_back = f"as they stand in {backup}" if backup.exists() else f"as {_config_of(ours)} has them"
    return (
        f"{file.path} has comments, which would be lost: it stays as it is, and this is for you to change. In "
        f"{'.'.join(file.place)}, in the place of {ours.name}: your servers, {put_back}, with the values that the env "
        f"of {ours.name} has. Nothing was changed."
    )


def _config_of(ours: Entry) -> Path | None:
    given = [after for word, after in itertools.pairwise(ours.args) if word == "--config"]
    return Path(given[0]) if given else None


def _upstreams(config: Path | None) -> Mapping[str, JsonObject]:
    try:
        return existing(config.read_bytes()).upstreams if config else {}
    except (OSError, ValueError):
        return {}


def _cwd(file: ClientFile, config: Path | None) -> str:
    return "" if config is not None and config.parent.resolve() == file.folder.resolve() else str(file.folder)


def _addition(config: Path | None, file: ClientFile) -> tuple[Path | None, bytes, str]:
    """Return the config that was added to, what it is without that, and why that has to stay if it does."""
    try:
        config = config.resolve() if config else None
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
