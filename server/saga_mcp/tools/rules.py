"""Evaluates rules over the results of a saga: authors' functions, and conditions of the config (SEMANTICS.md S9.3).

Rules fail closed (S11.3): one that raises, hangs, may not see what it has to judge, or answers with anything but None
or True is violated. Functions run in threads of their own, because they may do anything, and neither the wire nor the
log may wait for them; a condition takes microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import structlog

from saga_mcp.tools.binding import CannotBind, Condition
from saga_mcp.tools.binding.values import MAX_INPUT_BYTES
from saga_mcp.tools.port import Judged
from saga_mcp.tools.truth import truth
from saga_tools.server import RegisteredInvariant

_log = structlog.get_logger(__name__)

RULE_WITHIN_S = 5.0
"""How long one rule may take."""


RULE_VARIABLES: Final = frozenset({"results", "args", "result"})
"""What a condition of the config may name."""


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule of the config."""

    name: str
    check: Condition

    def holds(self, judged: Judged) -> bool:
        """Whether it does; without a value it does not (S11.3)."""
        values = {"results": dict(judged.results), "args": judged.args, "result": judged.result}
        try:
            return self.check.holds(values)
        except CannotBind:
            return False


class Rules:
    """The rules of a config and of its code."""

    def __init__(self, rules: Iterable[RegisteredInvariant], written: Iterable[WrittenRule] = ()) -> None:
        self._rules = tuple(rules)
        self._written = tuple(written)
        self._hanging: set[RegisteredInvariant] = set()
        """Rules whose thread has not come back: they get no second one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return (*(rule.name for rule in self._rules), *(rule.name for rule in self._written))

    async def violations(self, judged: Judged) -> tuple[str, ...]:
        """Names of those that do not hold; over more than 256 kB of results none does."""
        text = await anyio.to_thread.run_sync(json.dumps, dict(judged.results))
        if len(text) > MAX_INPUT_BYTES:
            return self.names
        coded = [rule.name for rule in self._rules if not await self._holds_in_time(rule, text)]
        return (*coded, *(rule.name for rule in self._written if not rule.holds(judged)))

    async def _holds_in_time(self, rule: RegisteredInvariant, results: str) -> bool:
        if rule in self._hanging:
            return False
        loop = asyncio.get_running_loop()
        verdict: asyncio.Future[bool] = loop.create_future()

        def judge() -> None:
            held = _holds(rule, results)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(tell, held)

        def tell(held: bool) -> None:  # noqa: FBT001 - a callback
            self._hanging.discard(rule)
            if not verdict.done():
                verdict.set_result(held)

        try:
            # A daemon: one that hangs must not keep the interpreter from exiting.
            threading.Thread(target=judge, name="saga rule", daemon=True).start()
        except RuntimeError:  # the machine has no thread left
            return False
        with anyio.move_on_after(RULE_WITHIN_S):
            return await verdict
        self._hanging.add(rule)
        _log.error("rule_hangs", rule=rule.name, after_s=RULE_WITHIN_S)
        return False


def _holds(rule: RegisteredInvariant, results: str) -> bool:
    try:
        said: object = rule.function(json.loads(results))  # each rule has a copy of its own
        if inspect.iscoroutine(said):
            said.close()  # a wrapped coroutine function, of which nothing has run
        return said is None or truth(said) is True
    except BaseException:  # noqa: BLE001 - authors' code; a rule that fails is violated (S11.3)
        return False
