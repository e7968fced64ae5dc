"""Writes what was planned, in an order in which every stop leaves a client's file that works; and takes it back.

First saga.toml, which nobody reads yet; then the backup; last the client's file, as a whole.
"""

from __future__ import annotations

import contextlib
import os

from saga_mcp.cli.adopting.client_file import ClientFile, ClientFileUnusable, backup_of, read_backup, replace_file
from saga_mcp.cli.adopting.planning import Plan
from saga_mcp.cli.output import CommandFailed
from saga_mcp.config import ConfigInvalid, load_config


def write(plan: Plan) -> None:
    """Write everything, or leave everything as it was.

    Raises:
        CommandFailed: it was left as it was.
    """
    backup = backup_of(plan.file.path)
    try:
        plan.config.parent.mkdir(parents=True, exist_ok=True)
        with plan.config.open("x", encoding="utf-8", newline="\n") as file:
            file.write(plan.toml)
    except OSError as error:
        raise CommandFailed(
            f"{plan.config} cannot be written: {error}. Nothing was changed.", code="not_written"
        ) from error
    try:
        load_config(plan.config, {**os.environ, **plan.referred})
        _require_unchanged(plan.file)
        replace_file(backup, plan.file.raw)
        backup.chmod(plan.file.path.stat().st_mode & 0o777)
        replace_file(plan.file.path, plan.client)
    except (OSError, CommandFailed, ConfigInvalid) as error:
        for path in (backup, plan.config):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        if isinstance(error, CommandFailed):
            raise
        raise CommandFailed(f"{error}\nNothing was changed.", code="not_written") from error


def revert(file: ClientFile, *, dry_run: bool) -> list[str]:
    """Put the servers of the backup back in the place of our entry; what was added since stays.

    Returns:
        Their names.

    Raises:
        CommandFailed: there is no backup, or it could not be written.
    """
    if not any(entry.is_ours for entry in file.entries):
        raise CommandFailed(f"{file.path} has no saga-mcp in it. Nothing was changed.", code="not_adopted")
    try:
        before = read_backup(file)
    except ClientFileUnusable as error:
        raise CommandFailed(f"{error}. Nothing was changed.", code="no_backup") from error
    if not dry_run:
        try:
            replace_file(file.path, file.without_ours(before))
            before.path.unlink()
        except OSError as error:
            raise CommandFailed(f"{error}. Nothing was changed.", code="not_written") from error
    return [entry.name for entry in before.entries]


def _require_unchanged(file: ClientFile) -> None:
    if file.path.read_bytes() != file.raw:
        raise CommandFailed(f"{file.path} has changed meanwhile. Nothing was changed.", code="changed_meanwhile")
