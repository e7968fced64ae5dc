"""Writes what was planned, in an order in which every stop leaves a client's file that works.

First saga.toml, which nobody reads yet, or which says what it said and more; then the backup; last the client's file,
unless a person has to change that.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from saga_mcp.cli.adopting.client_file import ClientFile, backup_of, replace_file
from saga_mcp.cli.adopting.planning import Plan
from saga_mcp.cli.ground import stdout_kept_clean
from saga_mcp.cli.output import CommandFailed
from saga_mcp.config import ConfigInvalid, load_config


def write(plan: Plan) -> None:
    """Write everything, or leave everything as it was.

    Raises:
        CommandFailed: it was left as it was.
    """
    backup = backup_of(plan.file.path)
    try:
        _write_config(plan)
    except OSError as error:
        raise CommandFailed(
            f"{plan.config} cannot be written: {error}. Nothing was changed.", code="not_written"
        ) from error
    try:
        _require_servable(plan)
        require_unchanged(plan.file)
        if plan.by_hand is None:
            replace_file(backup, plan.file.raw)
            backup.chmod(plan.file.path.stat().st_mode & 0o777)
            replace_file(plan.file.path, plan.client)
    except (OSError, CommandFailed) as error:
        with contextlib.suppress(OSError):
            backup.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            _put_config_back(plan)
        if isinstance(error, CommandFailed):
            raise
        raise CommandFailed(unwritable(plan.file.path, error), code="not_written") from error


def _write_config(plan: Plan) -> None:
    if plan.was is None:
        plan.config.parent.mkdir(parents=True, exist_ok=True)
        with open(plan.config, "xb", opener=_for_its_owner) as file:
            file.write(plan.content)
    elif plan.config.read_bytes() != plan.was:
        raise CommandFailed(f"{plan.config} has changed meanwhile. Nothing was changed.", code="changed_meanwhile")
    elif plan.content != plan.was:
        replace_file(plan.config, plan.content)


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def unwritable(path: Path, error: OSError) -> str:
    """What a person can do where a client's file cannot be written."""
    return (
        f"{path} cannot be written: {error.strerror or error}. Make it and its folder writable for you (see their "
        "owner and mode, and on Linux `lsattr`: a file that is immutable cannot be replaced), then try again; or copy "
        "it, adopt the copy, and put that in its place yourself. Nothing was changed."
    )


def _put_config_back(plan: Plan) -> None:
    if plan.was is None:
        plan.config.unlink(missing_ok=True)
    elif plan.content != plan.was:
        replace_file(plan.config, plan.was)


def _require_servable(plan: Plan) -> None:
    """Refuse a config with which the client's next start would fail, whoever wrote what is wrong with it."""
    try:
        with stdout_kept_clean():  # it may name Python code, which is loaded
            load_config(plan.config, {**os.environ, **plan.referred})
    except ConfigInvalid as error:
        hint = "" if plan.was is None else "Mend that first, or name another with --config. "
        raise CommandFailed(f"{error}\n{hint}Nothing was changed.", code="not_written") from error


def require_unchanged(file: ClientFile) -> None:
    """Refuse to write over what somebody has written since the file was read.

    Raises:
        CommandFailed: it has changed.
    """
    if file.path.read_bytes() != file.raw:
        raise CommandFailed(f"{file.path} has changed meanwhile. Nothing was changed.", code="changed_meanwhile")
