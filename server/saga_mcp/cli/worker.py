"""`saga-mcp worker`: takes the turns that Temporal gives out for this realm (DESIGN.md section 7).

The same process as a server, with the config's tools, log and owner, and without an MCP client.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import Annotated, Final, cast

import anyio
import typer
from anyio.abc import TaskGroup

from saga_mcp import app
from saga_mcp.cli.ground import Ground, stand_on
from saga_mcp.cli.options import ConfigOption
from saga_mcp.cli.output import CommandFailed, Exit
from saga_mcp.edge.logging import LogLevel, configure_logging
from saga_mcp.log.port import Claim

_LOOKS_EVERY_S: Final = 0.5
_SHOWS_EVERY_S: Final = 2.0
_GRACE_S: Final = 10.0
"""How long undos under way may take to be recorded after a signal."""


def worker(
    *,
    config: ConfigOption = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    log_json: Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")] = False,
    alive_file: Annotated[
        Path | None,
        typer.Option(
            "--alive-file", metavar="FILE", help="A file to touch every 2 s, for whoever watches this process."
        ),
    ] = None,
) -> None:
    """Drive sagas of this realm when Temporal says so: undos, probes, retries. Until Ctrl-C or SIGTERM. Logs to stderr.

    Needs `[saga] driver = "temporal"`, and the same tools and saga log as the servers.

    Example: saga-mcp worker --config /etc/saga-mcp/saga.toml
    """
    configure_logging(cast("LogLevel", log_level), json=log_json, stream=sys.stderr)
    ground = stand_on(config)
    if ground.loaded.temporal is None:
        raise CommandFailed(
            f'{ground.path} has no `[saga] driver = "temporal"`: the servers of realm {ground.realm} drive its sagas '
            "themselves, and a worker has nothing to do.",
            code="usage",
            exit_code=Exit.USAGE,
        )
    if alive_file is not None:
        try:
            alive_file.touch()
        except OSError as error:
            raise CommandFailed(
                f"--alive-file {alive_file} cannot be written ({error.strerror}): name one that can.",
                code="usage",
                exit_code=Exit.USAGE,
            ) from error
    anyio.run(_work, ground, alive_file)


async def _work(ground: Ground, alive_file: Path | None) -> None:
    async with app.open_app(ground.loaded, works=True) as opened:
        engine = opened.engine
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(_until_told, waiting)
            if alive_file is not None:
                waiting.start_soon(_show_life, anyio.Path(alive_file))
            # Neither has an event: the one is read by the driver, the other is a file, or a lock in the database.
            while not engine.driven_otherwise and engine.standing is not Claim.LOST:  # noqa: ASYNC110 - see above
                await anyio.sleep(_LOOKS_EVERY_S)
            waiting.cancel_scope.cancel()
        await engine.drain(_GRACE_S)
        otherwise, lost = engine.driven_otherwise, engine.standing is Claim.LOST
    if lost:
        raise CommandFailed(
            "Others no longer see that this worker lives, and have taken over what it drove, so it has ended. "
            "Start it again.",
            code="claim_lost",
        )
    if otherwise:
        raise CommandFailed(
            f'The sagas of realm {ground.realm} are driven by "{otherwise}" now, so this worker has ended. '
            "`saga-mcp driver set temporal` switches back.",
            code="driven_otherwise",
        )


async def _show_life(file: anyio.Path) -> None:
    """Touch the file for as long as tasks get their turns here, whatever becomes of the database and of Temporal."""
    while True:
        with contextlib.suppress(OSError):  # whoever watches it sees that it is old
            await file.touch()
        await anyio.sleep(_SHOWS_EVERY_S)


async def _until_told(waiting: TaskGroup) -> None:
    if sys.platform == "win32":  # which has no such signals: Ctrl-C ends it as a kill does
        await anyio.sleep_forever()
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            break
    waiting.cancel_scope.cancel()
