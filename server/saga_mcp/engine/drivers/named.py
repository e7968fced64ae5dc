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


class Named:
    """The name of a process's driver, against the one of the realm.

    Args:
        workshop: What the engine works with; it is told whether this process drives.
        name: Of the process's driver.
    """

    def __init__(self, workshop: Workshop, name: str) -> None:
        self._shop = workshop
        self._name = name
        workshop.named = name
        self._ours_until = -math.inf

    async def has_realm(self) -> bool:
        """Whether the realm is this driver's; where none has been named yet, it is now.

        Raises:
            LogUnavailable: that cannot be told now.
        """
        now = self._shop.clock.now()
        if now < self._ours_until:
            return True
        log, realm = self._shop.log, self._shop.settings.realm
        name = await log.driver_of(realm) or await log.name_driver(realm, self._name, was="")
        otherwise = "" if name == self._name else name
        if otherwise != self._shop.otherwise:
            self._shop.otherwise = otherwise
            if otherwise:
                _log.error("driven_otherwise", realm=realm, driver=otherwise, mine=self._name)
            else:
                _log.info("drives", realm=realm, driver=self._name)
        self._ours_until = -math.inf if otherwise else now + self._shop.settings.recovery_every_s
        return not otherwise
