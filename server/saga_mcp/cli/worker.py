"""`saga-mcp worker`: takes the turns that Temporal gives out for this realm (DESIGN.md section 7).

The same process as a server, with the config's tools, log and owner, and without an MCP client.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Final, cast

import anyio
import typer
from anyio.abc import TaskGroup

from saga_mcp import app
from saga_mcp.cli.ground import Ground, stand_on
from saga_mcp.cli.options import ConfigOption
from saga_mcp.cli.output import CommandFailed, Exit
from saga_mcp.edge.logging import LogLevel, configure_logging

_LOOKS_EVERY_S: Final = 0.5
_GRACE_S: Final = 10.0
"""How long undos under way may take to be recorded after a signal."""


def worker(
    *,
    config: ConfigOption = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    log_json: Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")] = False,
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
    anyio.run(_work, ground)


async def _work(ground: Ground) -> None:
    async with app.open_app(ground.loaded, works=True) as opened:
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(_until_told, waiting)
            while not opened.engine.driven_otherwise:  # noqa: ASYNC110 - it is read by the driver, which has no event for it
                await anyio.sleep(_LOOKS_EVERY_S)
            waiting.cancel_scope.cancel()
        await opened.engine.drain(_GRACE_S)
        otherwise = opened.engine.driven_otherwise
    if otherwise:
        raise CommandFailed(
            f'The sagas of realm {ground.realm} are driven by "{otherwise}" now, so this worker has ended. '
            "`saga-mcp driver set temporal` switches back.",
            code="driven_otherwise",
        )


async def _until_told(waiting: TaskGroup) -> None:
    if sys.platform == "win32":  # which has no such signals: Ctrl-C ends it as a kill does
        await anyio.sleep_forever()
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            break
    waiting.cancel_scope.cancel()
