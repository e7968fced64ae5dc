"""Pairs as they were frozen at their steps' intents, and how they are found again (SEMANTICS.md S6.1)."""

from __future__ import annotations

import structlog

from saga_mcp.domain.state import Step
from saga_mcp.engine.missing import PairMissing
from saga_mcp.log.port import PairRow, SagaLog
from saga_mcp.tools.pair import Pair, PairUnreadable

_log = structlog.get_logger(__name__)


class FrozenPairs:
    """Every pair that this process has met."""

    def __init__(self, log: SagaLog) -> None:
        self._log = log
        self._pairs: dict[str, Pair | PairUnreadable] = {}
        self._rows: dict[str, PairRow] = {}

    def row(self, pair: Pair) -> PairRow:
        """The row that freezes a pair as it is now."""
        row = self._rows.get(pair.hash)
        if row is None:
            row = self._rows[pair.hash] = PairRow(hash=pair.hash, content=pair.to_json())
            self._pairs[row.hash] = pair
        return row

    async def of(self, step: Step) -> Pair:
        """The pair as it was frozen at the step's intent.

        Raises:
            PairUnreadable: it is not there as it was stored, or another version wrote it.
        """
        if self.known(step) is None:  # one that was unreadable may be put back
            await self.read(step.plan.pair_hash)
        return self.in_decision(step)

    def in_decision(self, step: Step) -> Pair:
        """The same inside a decision: whoever runs it reads the pair where it is not in memory, and it starts over."""
        pair = self._pairs.get(step.plan.pair_hash)
        if pair is None:
            raise PairMissing(step.plan.pair_hash)
        if isinstance(pair, PairUnreadable):
            raise pair
        return pair

    def known(self, step: Step) -> Pair | None:
        """The pair, if it is in memory."""
        pair = self._pairs.get(step.plan.pair_hash)
        return pair if isinstance(pair, Pair) else None

    async def read(self, pair_hash: str) -> None:
        """Have a pair in memory, or know that it cannot be read."""
        row = await self._log.pair(pair_hash)
        try:
            self._pairs[pair_hash] = Pair.of_row(pair_hash, None if row is None else row.content)
        except PairUnreadable as unreadable:
            _log.error("pair_unreadable", pair=pair_hash, reason=str(unreadable))
            self._pairs[pair_hash] = unreadable
