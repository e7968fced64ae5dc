"""What can be wrong with an expression, at load and when it is bound.

SagaError
├─ TemplateError     the config is wrong: every problem of one value at once
└─ CannotBind        the config is sound, the values at hand are not

What an expression's failure means (refuse, ask, leave in doubt) is the caller's to decide by SEMANTICS.md S11.3. No
message here ever holds a value, only names and positions from the config: argument values must not reach logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from saga_mcp.domain.errors import SagaError


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong inside one string.

    Attributes:
        position: Characters from the start of the string.
        message: What is wrong, without the suggestion.
        suggestion: The known name that was probably meant.
    """

    position: int
    message: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a template, placed.

    Attributes:
        path: Where inside the value: `.args.owner`, `.undo[0].when`; empty for the value itself.
        text: The whole string that holds the fault.
        fault: What is wrong, and where in `text`.
    """

    path: str
    text: str
    fault: Fault

    def __str__(self) -> str:
        hint = f"; did you mean {self.fault.suggestion}?" if self.fault.suggestion else ""
        return f"{self.fault.message}{hint}"


class TemplateError(SagaError):
    """A template or a condition does not compile."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{p.path or 'value'}: {p}" for p in self.problems))


class Why(StrEnum):
    """What kind of thing stopped an expression: what a person has to look at."""

    MISSING = "missing"
    """A member that it names is not there."""
    TYPES = "types"
    """A value is of another type than it takes."""
    VALUE = "value"
    """Only these very values: another text, a longer list would do."""


class CannotBind(SagaError):
    """A template or a condition has no value here.

    Attributes:
        path: Where inside the template's value.
        expression: The source between `${` and `}`.
        reason: What stopped it; names, never values.
        why: Of what kind that is.
    """

    def __init__(self, path: str, expression: str, reason: str, why: Why = Why.VALUE) -> None:
        self.path = path
        self.expression = expression
        self.reason = reason
        self.why = why
        super().__init__(f"{path or 'value'}: ${{{expression}}}: {reason}")


class Unfit(Exception):
    """Why one expression has no value; inside this package only, `CannotBind` adds the place."""

    why = Why.VALUE


class Missing(Unfit):
    """The member that a path asks for is not there."""

    why = Why.MISSING


class Mistyped(Unfit):
    """A value is of another type than the expression takes."""

    why = Why.TYPES
