"""What every command stands on: the config, the log that it names, and who is alive there.

Commands reach the composition root through here. While an author's code runs, what it prints goes to stderr: stdout is
the command's answer, and often a program reads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from saga_mcp import app
from saga_mcp.app import App
from saga_mcp.cli.output import CommandFailed, Exit, count
from saga_mcp.config import ConfigError, ConfigInvalid, ConfigProblem, LoadedConfig, Survey
from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.values import JsonValue
from saga_mcp.edge.clean import escape
from saga_mcp.log.keeping import LogKeeping
from saga_mcp.log.owners import LivingOwner
from saga_mcp.log.port import SagaLog


@dataclass(frozen=True, slots=True)
class Ground:
    """A loaded config, and questions about the world that it names."""

    loaded: LoadedConfig

    @property
    def path(self) -> Path:
        """The config file."""
        return self.loaded.path

    @property
    def realm(self) -> str:
        """Whose sagas are looked at."""
        return self.loaded.settings.realm

    @property
    def database(self) -> str:
        """The saga log, as people name it."""
        return self.loaded.database.name

    def database_exists(self) -> bool:
        """Whether there is a saga log at all; no command but `serve` makes one."""
        return app.log_exists(self.loaded)

    @property
    def realm_moves(self) -> bool:
        """Whether the realm is made from the config's path, so that a moved folder is another one."""
        return self.loaded.realm_is_default

    def logs_beside(self) -> list[str]:
        """Realms whose own logs lie beside this one and are of folders of the same name: this one may be theirs."""
        if not (self.loaded.realm_is_default and self.loaded.database_is_default):
            return []
        place = self.realm.rpartition("-")[0]
        mine = self.loaded.database.beside
        return sorted(log.stem for log in mine.parent.glob(f"{place}-{'?' * 8}.db") if log != mine)

    def servers(self) -> list[LivingOwner]:
        """Living processes that drive this realm's sagas until they end."""
        return [owner for owner in self.alive() if owner.serves == self.realm]

    def left_alone(self, open_sagas: Mapping[str, int]) -> list[str]:
        """A line for each other realm that has open sagas in this log, and no server: this one may have been renamed.

        Args:
            open_sagas: how many there are, by realm.
        """
        driven = {self.realm, *(owner.serves for owner in self.alive())}
        return [
            f"{count(left, 'open saga')} of realm {escape(realm)}, which nobody drives."
            for realm, left in open_sagas.items()
            if left and realm not in driven
        ]

    def alive(self) -> list[LivingOwner]:
        """Every other process that uses this saga log now, as far as it says so.

        Raises:
            CommandFailed: a server has to be asked, and does not answer.
        """
        try:
            return app.living_processes(self.loaded)
        except LogUnavailable as error:
            raise CommandFailed(str(error), code="log_unavailable") from error


def stand_on(config: Path | None, *, code: bool = True) -> Ground:
    """Find and load the config; without its code where a command only looks.

    Raises:
        CommandFailed: there is none, or it has problems; all of them are in it.
    """
    with _config_read():
        return Ground(app.load(config, code=code))


def survey(config: Path | None) -> Survey:
    """Find and read the config, problems and all.

    Raises:
        CommandFailed: there is none, or it cannot be read at all.
    """
    with _config_read():
        return app.survey(config)


@contextmanager
def _config_read() -> Generator[None]:
    with stdout_kept_clean():
        try:
            yield
        except ConfigInvalid as error:
            details: dict[str, JsonValue] = {
                "config": str(error.path),
                "errors": [problem_json(each) for each in error.problems],
                "warnings": [problem_json(each) for each in error.warnings],
            }
            raise CommandFailed(str(error), code="config_invalid", exit_code=Exit.USAGE, details=details) from error
        except ConfigError as error:
            hint = "To start from nothing: `saga-mcp init --python`. To see what this is: `saga-mcp demo`."
            raise CommandFailed(f"{error}\n{hint}", code="config_missing", exit_code=Exit.USAGE) from error


def problem_json(problem: ConfigProblem) -> JsonValue:
    """A problem of the config for programs."""
    return {"key": problem.key, "message": problem.message, "line": problem.line}


@asynccontextmanager
async def open_log(ground: Ground) -> AsyncGenerator[SagaLog]:
    """The saga log, for reading.

    Raises:
        CommandFailed: it is not there, or it cannot be used.
    """
    _require_log(ground)
    with _usable(ground):
        async with app.open_log(ground.loaded) as log:
            yield log


@asynccontextmanager
async def open_keeping(ground: Ground) -> AsyncGenerator[LogKeeping]:
    """The saga log itself, for whoever keeps it in order; never a copy.

    Raises:
        CommandFailed: it is not there, or it cannot be used.
    """
    _require_log(ground)
    with _usable(ground):
        async with app.open_keeping(ground.loaded) as log:
            yield log


@asynccontextmanager
async def open_app(ground: Ground, *, drive: bool) -> AsyncGenerator[App]:
    """The engine over a saga log that is there. Its replies do not wait: the command waits by itself.

    Raises:
        CommandFailed: there is no saga log, or it cannot be used.
    """
    _require_log(ground)
    loaded = replace(ground.loaded, settings=replace(ground.loaded.settings, reply_within_s=0.0))
    with _usable(ground):
        async with app.open_app(loaded, drive=drive, ends_soon=True) as opened:
            yield opened


def _require_log(ground: Ground) -> None:
    if not ground.database_exists() and (alive := ground.alive()):
        pids = ", ".join(each.where for each in alive)
        raise CommandFailed(
            f"The saga log {ground.database} was moved or deleted while a living process (pid {pids}) was using it. "
            "Put it back, or restore a backup: its open sagas are in it.",
            code="no_saga_log",
        )
    if not ground.database_exists():
        raise CommandFailed(
            f"There is no saga log at {ground.database} yet (config {ground.path}, realm {ground.realm}), so there is "
            "nothing to say of it. A server makes it with its first saga: `saga-mcp serve`. If you expected one, name "
            "the right config with --config FILE.",
            code="no_saga_log",
        )


@contextmanager
def _usable(ground: Ground) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise CommandFailed(f"{ground.database} cannot be used: {error}", code="log_unavailable") from error


@contextmanager
def stdout_kept_clean() -> Generator[None]:
    """Send what is printed meanwhile, by whatever means, to stderr."""
    stdout = sys.stdout
    stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout = stdout
        os.dup2(kept, 1)
        os.close(kept)
