"""Evaluates the authors' rules over the results of a saga (SEMANTICS.md S9.3).

Rules fail closed (S11.3): one that raises, hangs, may not see what it has to judge, or answers with anything but None
or True is violated. They run in threads
of their own, because a rule is a plain function that may do anything, and neither the wire nor the log may wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import threading
from collections.abc import Iterable, Mapping

import anyio
import anyio.to_thread
import structlog

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding.values import MAX_INPUT_BYTES
from saga_mcp.tools.truth import truth
from saga_tools.server import RegisteredInvariant

_log = structlog.get_logger(__name__)

RULE_WITHIN_S = 5.0
"""How long one rule may take."""


class Rules:
    """The rules of a config."""

    def __init__(self, rules: Iterable[RegisteredInvariant]) -> None:
        self._rules = tuple(rules)
        self._hanging: set[RegisteredInvariant] = set()
        """Rules whose thread has not come back: they get no second one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(rule.name for rule in self._rules)

    async def violations(self, results: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """Names of those that do not hold; over more than 256 kB none does."""
        text = await anyio.to_thread.run_sync(json.dumps, dict(results))
        if len(text) > MAX_INPUT_BYTES:
            return self.names
        return tuple([rule.name for rule in self._rules if not await self._holds_in_time(rule, text)])

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
