"""The frozen view of a registry that the server works with.

Authors never build or see these; `saga_tools.server.registered` returns them. They are here, below the server, because
they consist of nothing but an author's functions and what their annotations say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from saga_tools._arguments import Arguments, Decoded
from saga_tools._json import Json
from saga_tools._result import Encoded, Result
from saga_tools._traits import Kind, Traits, UndoTraits


@dataclass(frozen=True, slots=True)
class RegisteredProbe:
    """What tells whether a forward action landed; it takes any of its parameters by name.

    Attributes:
        name: The function's name.
        function: The function itself.
        is_async: Whether it is to be awaited; a plain one belongs in a thread.
        parameters: The forward parameters it takes.
        call_parameter: Where the `Call` goes, if it takes one.
    """

    name: str
    function: Callable[..., Any]
    is_async: bool
    parameters: tuple[str, ...]
    call_parameter: str | None


@dataclass(frozen=True, slots=True)
class RegisteredRead:
    """A capture or a guard; it takes any of the forward action's parameters by name.

    Attributes:
        name: The function's name, unique in its registry among what is stored by name.
        function: The function itself.
        is_async: Whether it is to be awaited; a plain one belongs in a thread.
        arguments: Its own parameters.
        result: What it returns.
        call_parameter: Where the `Call` of a capture goes, if it takes one.
        undo_parameter: Where the `Undo` of a guard goes, if it takes one.
    """

    name: str
    function: Callable[..., Any]
    is_async: bool
    arguments: Arguments
    result: Result
    call_parameter: str | None
    undo_parameter: str | None


@dataclass(frozen=True, slots=True)
class RegisteredUndo:
    """An undo, or a part that `Call.on_undo` may name.

    Attributes:
        name: The function's name, unique in its registry; it is stored, so renaming one orphans what is stored.
        function: The function itself.
        is_async: Whether it is to be awaited; a plain one belongs in a thread.
        role: `undo` of a pair, or `part`.
        arguments: Its own parameters, for what `on_undo` stores; an undo's are a subset of the forward action's.
        undo_parameter: Where the `Undo` goes, if it takes one.
        traits: What was declared about it.
    """

    name: str
    function: Callable[..., Any]
    is_async: bool
    role: Literal["undo", "part"]
    arguments: Arguments
    undo_parameter: str | None
    traits: UndoTraits


@dataclass(frozen=True, slots=True)
class RegisteredInvariant:
    """A rule over the results of a saga: it holds where it returns None or True."""

    name: str
    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A forward action with all that belongs to it.

    Attributes:
        name: Name within its registry.
        title: Name for people, if one was given.
        description: From the docstring, without the sections on parameters and exceptions.
        function: The function itself.
        is_async: Whether it is to be awaited; a plain one belongs in a thread.
        traits: What was declared about it.
        arguments: Its parameters: schema, decoding, storing.
        result: Its return type: schema, storing, reading back.
        call_parameter: Where the `Call` goes, if it takes one.
        paired_elsewhere: Its undo is declared in the config, not here.
        undo: What undoes it.
        probe: What tells whether an in-doubt call landed.
        capture: What reads the world before a call.
        guard: What looks at the world before an undo.
    """

    name: str
    title: str | None
    description: str
    function: Callable[..., Any]
    is_async: bool
    traits: Traits
    arguments: Arguments
    result: Result
    call_parameter: str | None
    paired_elsewhere: bool
    undo: RegisteredUndo | None = field(default=None)
    probe: RegisteredProbe | None = field(default=None)
    capture: RegisteredRead | None = field(default=None)
    guard: RegisteredRead | None = field(default=None)

    @property
    def kind(self) -> Kind:
        """What it does to the world."""
        return self.traits.kind

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of its arguments."""
        return self.arguments.schema

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of its structured result; None for a function without a return annotation."""
        return self.result.schema

    @property
    def wraps_result(self) -> bool:
        """Whether its result is advertised as the property `result` of an object."""
        return self.result.wraps

    def decode(self, arguments: Mapping[str, Any]) -> Decoded:
        """Decode arguments as they came over the wire; see `Arguments.decode`."""
        return self.arguments.decode(arguments)

    def kwargs_from_json(self, stored: Mapping[str, Json], left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return Python values for stored arguments; see `Arguments.kwargs_from_json`."""
        return self.arguments.kwargs_from_json(stored, left_out)

    def encode_result(self, value: object) -> Encoded:
        """Return the JSON value of a result, and whether it is exact; never raises."""
        return self.result.encode(value)

    def decode_result(self, value: Json) -> object:
        """Return the Python value of a stored result; see `Result.decode`."""
        return self.result.decode(value)
