"""Which driver has the realm: known before each look at a saga, so that two kinds of driver never share one (S12.2).

What was read holds for a moment: a rollback of a thousand steps looks a thousand times. A claim is checked in its own
transaction, so what is begun in that moment after a switch is begun by whoever has the saga already.
"""

from __future__ import annotations

import math
from typing import Final

import structlog

from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)

LOCAL: Final = "local"
TEMPORAL: Final = "temporal"


class Tenure:
    """Whether the realm is driven by the kind of driver that a process has.

    Args:
        workshop: What the engine works with; it is told whether this process drives.
        name: Of the process's driver.
    """

    def __init__(self, workshop: Workshop, name: str) -> None:
        self._shop = workshop
        self._name = name
        workshop.driver_name = name
        self._ours_until = -math.inf

    async def holds(self) -> bool:
        """Whether the realm is this driver's.

        Raises:
            LogUnavailable: that cannot be told now.
        """
        now = self._shop.clock.now()
        if now >= self._ours_until:
            self._found(await self._read())
            self._ours_until = -math.inf if self._shop.otherwise else now + self._shop.settings.recovery_every_s
        return not self._shop.otherwise

    async def _read(self) -> str:
        """Name of the realm's driver; where none has been named yet, it is this one from now on."""
        log, realm = self._shop.log, self._shop.settings.realm
        return await log.driver_of(realm) or await log.name_driver(realm, self._name, was="")

    def _found(self, name: str) -> None:
        """Let the engine know, and say so where it has changed."""
        otherwise = "" if name == self._name else name
        if otherwise == self._shop.otherwise:
            return
        self._shop.otherwise = otherwise
        if otherwise:
            _log.error("driven_otherwise", realm=self._shop.settings.realm, driver=otherwise, mine=self._name)
        else:
            _log.info("drives", realm=self._shop.settings.realm, driver=self._name)
