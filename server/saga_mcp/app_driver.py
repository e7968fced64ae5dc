"""Which driver a process has: with `app`, the only place that names one (DESIGN.md section 7).

Temporal's SDK is imported when it is first used: it is an extra, and would take a good part of the time of a start.
"""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING

from anyio import to_thread
from anyio.abc import TaskGroup

from saga_mcp.config import LoadedConfig
from saga_mcp.domain.errors import DriverUnavailable
from saga_mcp.domain.hosts import host_key
from saga_mcp.engine.drivers.local import LocalDriver
from saga_mcp.engine.drivers.temporal.driver import TemporalDriver
from saga_mcp.engine.drivers.temporal.place import TemporalPlace
from saga_mcp.engine.workshop import DriverFactory, Workshop

if TYPE_CHECKING:
    from saga_mcp.engine.drivers.temporal.connection import TemporalConnection
    from saga_mcp.engine.drivers.temporal.worker import TemporalHands


def driver_of(loaded: LoadedConfig, *, works: bool = False, ends_soon: bool = False) -> DriverFactory:
    """Return what makes the driver of a process.

    Args:
        loaded: The config, which names it.
        works: The process is a worker.
        ends_soon: It is a command.

    Raises:
        DriverUnavailable: It is not installed.
    """
    place = loaded.temporal
    if place is None:
        return LocalDriver
    if find_spec("temporalio") is None:
        raise DriverUnavailable(
            '[saga] driver = "temporal" needs Temporal\'s SDK, which is not installed here: '
            'pip install "saga-mcp[temporal]". Nothing was started.'
        )
    return temporal_driver(place, loaded.settings.realm, works=works, ends_soon=ends_soon)


def temporal_driver(place: TemporalPlace, realm: str, *, works: bool = False, ends_soon: bool = False) -> DriverFactory:
    """Return what makes the `temporal` driver of a realm; otherwise as `driver_of`."""
    makes_hands = _hands() if works else None  # before anything is open that others wait for
    made: list[TemporalConnection] = []

    def connection() -> TemporalConnection:
        if not made:
            from saga_mcp.engine.drivers.temporal.connection import TemporalConnection  # noqa: PLC0415 - see above

            made.append(TemporalConnection(place, realm, f"saga-mcp {os.getpid()}@{socket.gethostname()}"))
        return made[0]

    async def send(saga_id: str, *, signal: bool) -> None:
        connected = made[0] if made else await to_thread.run_sync(connection)  # the first one imports the SDK
        await connected.tell(saga_id, signal=signal)

    def driver(workshop: Workshop, tasks: TaskGroup) -> TemporalDriver:
        hands = None
        if makes_hands is not None:
            hands = makes_hands(
                connection(), realm, place.queue_of(realm), workshop.clock, host=host_key(workshop.settings.host)
            )
        return TemporalDriver(workshop, tasks, send, hands, brief=ends_soon)

    return driver


def _hands() -> type[TemporalHands]:
    from saga_mcp.engine.drivers.temporal.worker import TemporalHands  # noqa: PLC0415 - see above

    return TemporalHands
