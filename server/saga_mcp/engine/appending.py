"""Runs a decision on a saga's current state until the log has stored what came of it, or has not.

A decision is pure and is made while every process waits for the log, so it may not wait for anything itself. What it
finds missing it says by an exception of `missing`: that is fetched outside of the log, and the decision runs again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from saga_mcp.domain.alerts import URGENT
from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.living import Life
from saga_mcp.domain.values import JsonValue
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.missing import LifeMissing, LookFirst, PairMissing, VerdictMissing
from saga_mcp.engine.pairs import FrozenPairs
from saga_mcp.log.port import AppendUnsettled, Decide, Decided, SagaLog
from saga_mcp.tools.port import Catalogue, Judged
from saga_tools import Retry

_log = structlog.get_logger(__name__)

STORE_AGAIN = Retry(first_delay_s=0.1, max_delay_s=5.0)
"""How far apart the log is asked again to take what has happened, or whether it has taken it."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Which rules these results violate."""

    results: Mapping[str, JsonValue]
    violated: tuple[str, ...]


class Appending:
    """What decisions go through.

    Args:
        log: where to.
        pairs: in which a pair is read that a decision needs.
        catalogue: knows the rules.
        life: tells what is known of a process.
        clock: for the pauses between two questions.
        tells: whether this process says in its log what there is to tell (S10.6).
    """

    def __init__(
        self,
        log: SagaLog,
        pairs: FrozenPairs,
        catalogue: Catalogue,
        life: Callable[[str], Awaitable[Life]],
        clock: Clock,
        *,
        tells: bool,
    ) -> None:
        self._log = log
        self._pairs = pairs
        self._catalogue = catalogue
        self._life = life
        self._clock = clock
        self._tells = tells
        self._verdicts: dict[tuple[str, int], _Verdict] = {}
        """What the rules said, for the decision that asked; by saga and step."""
        self._lives: dict[str, Life] = {}
        """What is known of processes, for the decisions that asked."""

    async def append(self, saga_id: str, decide_on: Decide, *, settle_within_s: float = math.inf) -> Decided:
        """Append what a decision makes of the saga's current state.

        Where the log does not say whether it stored that, it is asked until it does.

        Args:
            saga_id: the saga.
            decide_on: what to append.
            settle_within_s: how long, in seconds, the log is asked. Only for what leaves nothing in hand here.

        Raises:
            Refused, LogUnavailable, LogConflict, SagaQuarantined, StepLockLost: nothing was stored.
            AppendUnsettled: it is not known whether it was, and the time is over.
        """
        judged: set[tuple[str, int]] = set()
        looked: set[str] = set()
        try:
            while True:
                try:
                    return self._told(await self._log.decide(saga_id, decide_on))
                except PairMissing as missing:
                    await self._pairs.read(missing.pair_hash)
                except LookFirst as first:
                    await first.look()
                except LifeMissing as missing:
                    looked.add(missing.owner)
                    self._lives[missing.owner] = await self._life(missing.owner)
                except VerdictMissing as missing:
                    judged.add(missing.key)
                    # Authors' code: never where every process waits for the log.
                    violated = await self._catalogue.violations(missing.judged)
                    self._verdicts[missing.key] = _Verdict(missing.judged.results, violated)
                except AppendUnsettled as unsettled:
                    return self._told(await self._settled(unsettled, self._clock.now() + settle_within_s))
        finally:
            for key in judged:
                self._verdicts.pop(key, None)
            for owner in looked:
                self._lives.pop(owner, None)

    def life(self, owner: str) -> Life:
        """What is known of another process, inside a decision."""
        life = self._lives.get(owner)
        if life is None:
            raise LifeMissing(owner)
        return life

    def violated(self, key: tuple[str, int], judged: Judged) -> tuple[str, ...]:
        """Which rules are violated, inside a decision; `key`: the saga, and the step whose result it is about."""
        verdict = self._verdicts.get(key)
        # A sibling may have ended since: then the rules look again, at both.
        if verdict is None or verdict.results != judged.results:
            raise VerdictMissing(key, judged)
        return verdict.violated

    def _told(self, decided: Decided) -> Decided:
        """Say in the log what there is to tell about a decision that is stored: names and states, no values."""
        for alert in decided.alerts if self._tells else ():
            level = logging.WARNING if alert.type in URGENT else logging.INFO
            _log.log(level, "alert", type=alert.type.value, **alert.data)
        return decided

    async def _settled(self, unsettled: AppendUnsettled, give_up_at: float) -> Decided:
        times = 0
        while True:
            try:
                if await self._log.stored(unsettled.append):
                    return unsettled.decided
            except LogUnavailable as error:
                times += 1
                saga_id = unsettled.append.saga_id
                _log.warning("append_unsettled", saga_id=saga_id, times=times, reason=str(error))
                if self._clock.now() >= give_up_at:
                    raise unsettled from error
            else:
                message = "the saga log did not take this; nothing was stored and nothing was sent. Try again."
                raise LogUnavailable(message) from unsettled
            await self._clock.sleep(self._clock.jitter(STORE_AGAIN.delay_s(times)))
