"""What the decorators write down: one entry for each decorated function, in order, before anything is put together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from saga_tools._signature import Signature
from saga_tools._traits import Traits, UndoTraits

Role = Literal["undo", "probe", "capture", "guard"]
"""What a function is to the forward action it belongs to."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A function registered as a tool."""

    name: str
    title: str | None
    signature: Signature
    traits: Traits
    paired_elsewhere: bool


@dataclass(frozen=True, slots=True)
class Companion:
    """A function that belongs to a forward action; `traits` are an undo's."""

    role: Role
    forward: Callable[..., Any]
    signature: Signature
    traits: UndoTraits


@dataclass(frozen=True, slots=True)
class Part:
    """A function that `Call.on_undo` may name."""

    signature: Signature
    traits: UndoTraits


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule over the results of a saga."""

    signature: Signature


Entry = Forward | Companion | Part | Invariant
