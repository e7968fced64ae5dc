"""What a tool may raise on purpose, and what registration and decoding say when something does not fit.

These classes live on the author's side because the author raises or reads them; the server only catches them.

SagaToolsError
├─ NoEffect            raised by a forward action: certainly nothing happened
├─ NeedsPerson         raised by an undo: a person must do it; automatic compensation halts
├─ CannotUndo          raised by an undo: dead letter at once, no further attempts
├─ PairError           tools or pairs that cannot be served as they are registered
├─ InvalidArguments    a call's arguments do not fit the tool's parameters
└─ InvalidResult       a stored result does not fit today's return type
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Urgency = Literal["low", "normal", "high"]
"""How soon a person should look at what waits for them."""


class SagaToolsError(Exception):
    """Base of every error this package raises, or offers to be raised, on purpose."""


class NoEffect(SagaToolsError):
    """Raise from a forward action that certainly changed nothing: the step is `failed`, never in doubt."""


class NeedsPerson(SagaToolsError):
    """Raise from an undo that only a person can do; automatic compensation halts until it is settled."""

    def __init__(self, message: str, urgency: Urgency = "normal") -> None:
        self.message = message
        self.urgency: Urgency = urgency
        super().__init__(message)


class CannotUndo(SagaToolsError):
    """Raise from an undo that can never succeed: it becomes a dead letter at once, without further attempts."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a registered tool or pair.

    Attributes:
        tool: Name of the tool it is about.
        message: What is wrong.
        fix: What to do about it.
        where: `file:line` of the function.
    """

    tool: str
    message: str
    fix: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.tool}: {self.message}; {self.fix}" + (f" ({self.where})" if self.where else "")


class PairError(SagaToolsError):
    """The registry holds tools that cannot be served; `problems` lists every one of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One thing wrong with the arguments of a call; never holds the value itself, which may be secret.

    Attributes:
        path: Where, such as `legs[0].date`; empty for the arguments as a whole.
        message: What is expected there.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidArguments(SagaToolsError):
    """The arguments of a call do not fit the tool's parameters; `problems` lists every one."""

    def __init__(self, problems: Sequence[ArgumentProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class InvalidResult(SagaToolsError):
    """A stored result cannot be read as the return type the function has today."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` for the closest known name, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean `{close[0]}`?" if close else ""
