"""A map that forgets: for what a process remembers only to say or ask things at the right time.

On this layer because the relay of questions and the edge both use it; a restart loses nothing else.
"""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

_REMEMBERED: Final = 1000

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The most recently used entries of a map."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return an entry that is remembered."""
        return self._entries.get(key)

    def take(self, key: K) -> V | None:
        """Return an entry and forget it."""
        return self._entries.pop(key, None)

    def put(self, key: K, value: V) -> None:
        """Remember an entry, and forget the oldest."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
