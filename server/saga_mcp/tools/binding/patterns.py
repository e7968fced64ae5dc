"""RE2 patterns: matching time is linear in the text, whatever the pattern (S11.3).

Apart from the functions, because google-re2 ships no types and this is the one place that says which we rely on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Protocol, cast

import re2  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs] - google-re2 ships no types


class BadPattern(ValueError):
    """RE2 does not accept the pattern; the message quotes it."""


class _Regexp(Protocol):
    @property
    def groups(self) -> int: ...
    def finditer(self, text: str) -> Iterator[_Match]: ...


class _Match(Protocol):
    def group(self, number: int) -> str | None: ...


class _Options(Protocol):
    log_errors: bool


class _Engine(Protocol):
    Options: Callable[[], _Options]
    error: type[Exception]

    def compile(self, pattern: str, options: _Options) -> _Regexp: ...


_engine = cast("_Engine", re2)


def check(pattern: str) -> None:
    """Compile a pattern, which then is kept with the last 128.

    Raises:
        BadPattern: RE2 does not accept it.
    """
    _compile(pattern)


def matches(pattern: str, text: str) -> Iterator[str | None]:
    """Yield of each match in order its first group, or the whole match where the pattern has none.

    A group that took no part in its match is None.

    Raises:
        BadPattern: RE2 does not accept the pattern.
    """
    regexp = _compile(pattern)
    group = min(regexp.groups, 1)
    return (found.group(group) for found in regexp.finditer(text))


def _compile(pattern: str) -> _Regexp:
    try:
        return _engine.compile(pattern, _quiet())
    except _engine.error as error:
        detail: object = error.args[0]
        raise BadPattern(detail.decode() if isinstance(detail, bytes) else str(detail)) from None


@functools.cache
def _quiet() -> _Options:
    options = _engine.Options()
    # RE2 would print the pattern to stderr.
    options.log_errors = False
    return options
