"""Whether a process has looked for what dead ones left: for tests that it takes nothing which is somebody's."""

from __future__ import annotations

from collections.abc import Sequence

from tests.world.failing import LogAround
from tests.world.server import eventually

from saga_mcp.log.port import SagaLog, SagaRow


class CountedScans(LogAround):
    """Counts the scans: each begins with a look for busy sagas."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.begun = 0
        self.looked = 0
        """How many have seen what is busy."""

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        self.begun += 1
        rows = await self.inner.busy_sagas(realm)
        self.looked += 1
        return rows

    async def over(self, scans: int) -> None:
        """Return once so many that began after now are over: then the next one has begun."""
        enough = self.begun + scans + 1
        await eventually(lambda: self.begun >= enough)
