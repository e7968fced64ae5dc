"""Failures around real calls, in the words in which they are asked for: `serve --inject` and `Harness.fail`.

On this layer because both put them around the port's tools. An effect is never faked: what fails after its work has
really done it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import anyio


class When(StrEnum):
    """What goes wrong with a call."""

    BEFORE = "before"
    """It fails, and nothing was done."""
    AFTER = "after"
    """It fails, and its work is done."""
    HANG = "hang"
    """Its work is done, and no answer comes."""
    CRASH = "crash"
    """Its work is done, and the server is killed."""


@dataclass(slots=True)
class Often:
    """At how many calls a failure strikes: at the next ones, or by chance at each."""

    left: int = 1
    rate: float | None = None
    """How likely it is at each call, above 0 and up to 1; None: at the next `left` calls."""

    def strikes(self) -> bool:
        """Whether it strikes at this call, which is counted."""
        if self.rate is not None:
            return random.random() < self.rate  # noqa: S311 - chance, not secrecy
        due = self.left > 0
        self.left -= due
        return due


async def after_work(when: str, kill: Callable[[], None]) -> None:
    """What becomes of a call whose work is done: it hangs, or its server dies; else this returns at once."""
    if when == When.CRASH:
        kill()
    if when in {When.HANG, When.CRASH}:
        await anyio.sleep_forever()
