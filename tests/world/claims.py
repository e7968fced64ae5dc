"""Owners whose claim is what a test says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import anyio

from saga_mcp.domain.living import Life
from saga_mcp.log.port import Claim, Owners


class Said:
    """An `Owners` whose own claim is held, awaited or lost as a test has said; all else is the real one's."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._said: Claim | None = None
        self._asked = 0

    @property
    def me(self) -> str:
        return self._owners.me

    @property
    def standing(self) -> Claim:
        self._asked += 1
        return self._owners.standing if self._said is None else self._said

    @property
    def trouble(self) -> str:
        return self._owners.trouble if self._said is None else f"the claim is {self._said.value}"

    async def look(self, owners: Collection[str]) -> Mapping[str, Life]:
        return await self._owners.look(owners)

    async def others_serve(self, realm: str) -> bool:
        return await self._owners.others_serve(realm)

    def mark(self) -> Path:
        return self._owners.mark()

    def standing_is(self, claim: Claim | None) -> None:
        """Let it be so, or as it really is."""
        self._said = claim

    async def say(self, claim: Claim | None) -> None:
        """The same, and return once it was asked after a few times."""
        self.standing_is(claim)
        asked = self._asked
        with anyio.fail_after(10):
            while self._asked < asked + 3:  # noqa: ASYNC110 - whoever asks tells nobody
                await anyio.sleep(0.01)
