"""An immutable sequence that is cheap to change at one place: a saga of thousands of steps changes one at a time.

A tuple would be copied whole with each event, so that a long saga's steps cost more each than a short one's. Here the
items lie in chunks; what changes is one chunk and the row of chunks, and all else is shared with the sequence before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar, overload

T = TypeVar("T")

CHUNK = 64
"""Items in each chunk but the last: about the square root of the longest sagas, where both copies are short."""


@dataclass(frozen=True, slots=True)
class Vector(Sequence[T]):
    """Items in a fixed order. Made by `Vector.of`; equal to another one with equal items."""

    chunks: tuple[tuple[T, ...], ...] = ()
    """All but the last one full, none empty."""
    length: int = 0

    @classmethod
    def of(cls, items: Iterable[T]) -> Vector[T]:
        """The sequence of these items."""
        flat = tuple(items)
        return cls(tuple(flat[start : start + CHUNK] for start in range(0, len(flat), CHUNK)), len(flat))

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(chain.from_iterable(self.chunks))[index]
        place = index if index >= 0 else index + self.length
        if not 0 <= place < self.length:
            raise IndexError(index)
        return self.chunks[place // CHUNK][place % CHUNK]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.chunks)

    def __reversed__(self) -> Iterator[T]:
        return chain.from_iterable(map(reversed, reversed(self.chunks)))

    def appended(self, item: T) -> Vector[T]:
        """With one more item at the end."""
        if self.length % CHUNK == 0:
            return Vector((*self.chunks, (item,)), self.length + 1)
        return Vector((*self.chunks[:-1], (*self.chunks[-1], item)), self.length + 1)

    def replaced(self, index: int, item: T) -> Vector[T]:
        """With another item at `index`, which is counted from 0, never from the end.

        Raises:
            IndexError: there is no item at `index`.
        """
        if not 0 <= index < self.length:
            raise IndexError(index)
        place, within = divmod(index, CHUNK)
        chunk = self.chunks[place]
        changed = (*chunk[:within], item, *chunk[within + 1 :])
        return Vector((*self.chunks[:place], changed, *self.chunks[place + 1 :]), self.length)

    def shortened(self, length: int) -> Vector[T]:
        """The first `length` items.

        Raises:
            ValueError: there are not so many, or `length` is negative.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"{length} of {self.length} items")
        full, rest = divmod(length, CHUNK)
        return Vector(self.chunks[:full] + ((self.chunks[full][:rest],) if rest else ()), length)
