"""What a decision finds missing: it is fetched outside of the log, and the decision runs again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from saga_mcp.tools.port import Judged


class PairMissing(Exception):
    """A decision needs a pair that is not in memory; it is read, and the decision runs again."""

    def __init__(self, pair_hash: str) -> None:
        self.pair_hash = pair_hash
        super().__init__(pair_hash)


class LookFirst(Exception):
    """A decision needs something of the log that is not in memory; it is looked up, and the decision runs again."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self.look = look
        super().__init__()


class LifeMissing(Exception):
    """A decision needs to know whether a process lives; that is asked, and the decision runs again."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        super().__init__(owner)


class VerdictMissing(Exception):
    """A decision needs the rules' verdict on results; it is found outside of the log, and the decision runs again."""

    def __init__(self, key: tuple[str, int], judged: Judged) -> None:
        self.key = key
        self.judged = judged
        super().__init__(key)
