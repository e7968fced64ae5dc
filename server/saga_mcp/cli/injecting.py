"""`saga-mcp serve --inject`: failures around real calls, so that a team sees what its compensations do.

Light, as all that `serve` imports. What the words mean is `tools.failing`'s; here is how they are read, and put around
tools of every kind.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from saga_mcp.domain.values import Effect
from saga_mcp.tools.around import CatalogueAround, ToolAround
from saga_mcp.tools.failing import Often, When, after_work
from saga_mcp.tools.port import Arguments, CallContext, Catalogue, Landed, Missed, Outcome, Tool, ToolAnswer

GRAMMAR = "step=TOOL:before|after|hang|crash[:once|:RATE]"


@dataclass(slots=True)
class Injection:
    """One failure that was asked for."""

    tool: str
    when: When
    often: Often

    def __str__(self) -> str:
        """As it was asked for."""
        return f"step={self.tool}:{self.when}" + ("" if self.often.rate is None else f":{self.often.rate:g}")


class Unreadable(Exception):
    """The words say no failure; the message says how."""


def parse(words: Sequence[str]) -> tuple[Injection, ...]:
    """Return the failures that a command line asks for.

    Raises:
        Unreadable: one cannot be read.
    """
    return tuple(map(_parse, words))


def _parse(word: str) -> Injection:
    subject, _, rest = word.partition("=")
    tool, _, how = rest.partition(":")
    when, _, often = how.partition(":")
    if subject != "step" or not tool or when not in {*When}:
        raise Unreadable(f"--inject {word}: write it as {GRAMMAR}, e.g. step=update_order:after")
    if often in {"", "once"}:
        return Injection(tool, When(when), Often())
    try:
        rate = float(often)
    except ValueError:
        rate = -1.0
    if not 0 < rate <= 1:
        raise Unreadable(f"--inject {word}: {often} is no rate; write once, or a number above 0 and up to 1")
    return Injection(tool, When(when), Often(rate=rate))


def notice(injections: Sequence[Injection]) -> str:
    """What every reply says while failures are injected; empty: none are."""
    return f"[failures are injected on purpose here: {', '.join(map(str, injections))}]" if injections else ""


@dataclass(frozen=True, slots=True)
class InjectingCatalogue(CatalogueAround):
    """The catalogue whose tools fail as they were asked to."""

    injections: tuple[Injection, ...]

    @classmethod
    def around(cls, inner: Catalogue, injections: tuple[Injection, ...]) -> Catalogue:
        """Return the catalogue with its failures.

        Raises:
            Unreadable: there is no such tool.
        """
        for each in injections:
            if each.tool in inner.offered or inner.tool(each.tool) is not None:
                continue
            if any(each.tool in tool.pair.undo_tools for tool in inner.offered.values()):
                raise Unreadable(f"--inject {each}: {each.tool} is called by undos only, and only steps can fail so")
            raise Unreadable(f"--inject {each}: there is no tool {each.tool}; `saga-mcp check` lists them")
        return cls(inner, injections) if injections else inner

    def around_tool(self, tool: Tool) -> Tool:
        """Return the tool with its failures."""
        mine = tuple(each for each in self.injections if each.tool in {tool.offered, tool.pair.tool})
        return InjectingTool(tool, mine) if mine else tool


@dataclass(frozen=True, slots=True)
class InjectingTool(ToolAround):
    """A tool that fails as it was asked to."""

    injections: tuple[Injection, ...]

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        """Do the forward action, or fail around it."""
        due = next((each for each in self.injections if each.often.strikes()), None)
        if due is None:
            return await self.inner.call(args, context)
        said = f"injected failure: {due}"
        answer = ToolAnswer(content=({"type": "text", "text": said},), is_error=True)
        if due.when is When.BEFORE:
            return Missed(answer=answer, effect=Effect.NONE, error=said)
        outcome = await self.inner.call(args, context)
        await after_work(due.when, _die)
        # Of a call that failed by itself nobody may be told more than is known of it.
        return Missed(answer=answer, effect=Effect.UNKNOWN, error=said) if isinstance(outcome, Landed) else outcome


def _die() -> NoReturn:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    raise AssertionError  # pragma: no cover - nobody is left
