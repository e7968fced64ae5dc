"""Puts the entries of a registry together into what the server works with, and collects every problem on the way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from saga_tools import _check
from saga_tools._arguments import Arguments, read_arguments
from saga_tools._docstring import read_docstring
from saga_tools._entries import Companion, Entry, Forward, Invariant, Part, Role
from saga_tools._errors import PairError, Problem, did_you_mean
from saga_tools._model import RegisteredInvariant, RegisteredProbe, RegisteredRead, RegisteredTool, RegisteredUndo
from saga_tools._result import read_result
from saga_tools._signature import Signature, name_of
from saga_tools._traits import UndoTraits


@dataclass(frozen=True, slots=True)
class Registered:
    """A registry as a whole.

    Attributes:
        tools: The tools by name, in the order of registration.
        callables: The undos and parts by the name under which they are stored.
        invariants: The rules over the results of a saga, in the order of registration.
        problems: What is wrong; where there is something, `tools` and `callables` lack what has it.
    """

    tools: Mapping[str, RegisteredTool]
    callables: Mapping[str, RegisteredUndo]
    invariants: tuple[RegisteredInvariant, ...]
    problems: tuple[Problem, ...]

    def callable_for(self, function: Callable[..., object]) -> RegisteredUndo:
        """Return the undo or part that `Call.on_undo` was given.

        Raises:
            PairError: The function is neither.
        """
        for candidate in self.callables.values():
            if candidate.function is function:
                return candidate
        name = name_of(function)
        text = f"on_undo was given `{name}`, which is neither an undo nor a part of this registry"
        raise PairError([Problem(name, text, f"put `@registry.part` on it{did_you_mean(name, self.callables)}")])


def build(entries: Sequence[Entry]) -> Registered:
    """Put entries together."""
    forwards = [entry for entry in entries if isinstance(entry, Forward)]
    companions = [entry for entry in entries if isinstance(entry, Companion)]
    parts = [entry for entry in entries if isinstance(entry, Part)]
    invariants = [entry for entry in entries if isinstance(entry, Invariant)]
    undos = [companion for companion in companions if companion.role == "undo"]

    problems = [problem for entry in entries for problem in entry.signature.problems]
    problems += _lost(companions, forwards)
    problems += _check.check_unique([(f.name, f, f.signature.where) for f in forwards], "tools")
    storable = [entry.signature for entry in entries if isinstance(entry, Part) or entry in undos]
    problems += _check.check_unique([(s.name, s.function, s.where) for s in storable], "undos or parts")
    reads = [companion.signature for companion in companions if companion.role in {"capture", "guard"}]
    problems += _check.check_unique([(s.name, s.function, s.where) for s in reads], "captures or guards")
    for invariant in invariants:
        problems += _check.check_invariant(invariant)

    stored: dict[str, RegisteredUndo] = {}
    for entry in parts:
        undo, found = _undo(entry.signature, entry.traits, "part", entry.signature.name)
        problems += found
        if undo:
            stored[undo.name] = undo
    tools: dict[str, RegisteredTool] = {}
    for forward in forwards:
        tool, found = _tool(forward, [c for c in companions if c.forward is forward.signature.function])
        problems += found
        if tool:
            tools.setdefault(tool.name, tool)
            if tool.undo:
                stored.setdefault(tool.undo.name, tool.undo)
    return Registered(
        MappingProxyType(tools),
        MappingProxyType(stored),
        tuple(RegisteredInvariant(i.signature.name, i.signature.function) for i in invariants),
        tuple(dict.fromkeys(problems)),
    )


def _tool(forward: Forward, companions: Sequence[Companion]) -> tuple[RegisteredTool | None, list[Problem]]:
    signature = forward.signature
    docstring = read_docstring(signature.function)
    problems = [*_check.check_forward(forward), *_check.check_whole(forward, companions)]
    by_role: dict[Role, Companion] = {}
    undo: RegisteredUndo | None = None
    for companion in companions:
        problems += _check.check_companion(companion, forward)
        other = by_role.setdefault(companion.role, companion)
        if other is not companion:
            text = (
                f"it has two functions as {companion.role}: `{other.signature.name}` and `{companion.signature.name}`"
            )
            problems.append(Problem(forward.name, text, "keep one", companion.signature.where))
        elif companion.role == "undo":
            undo, found = _undo(companion.signature, companion.traits, "undo", forward.name)
            problems += found
    capture, lacking = _read(by_role.get("capture"), forward.name)
    guard, lacking_too = _read(by_role.get("guard"), forward.name)
    problems += [*lacking, *lacking_too]
    arguments, found = read_arguments(signature, docstring, forward.name)
    result, found_too = read_result(signature, forward.name)
    problems += [*found, *found_too]
    if arguments is None or result is None:
        return None, problems
    tool = RegisteredTool(
        name=forward.name,
        title=forward.title,
        description=docstring.description,
        function=signature.function,
        is_async=signature.is_async,
        traits=forward.traits,
        arguments=arguments,
        result=result,
        call_parameter=signature.call_parameter,
        paired_elsewhere=forward.paired_elsewhere,
        undo=undo,
        probe=_probe(by_role.get("probe")),
        capture=capture,
        guard=guard,
    )
    return tool, problems


def _read(companion: Companion | None, tool: str) -> tuple[RegisteredRead | None, list[Problem]]:
    if companion is None:
        return None, []
    signature = companion.signature
    arguments, problems = read_arguments(signature, read_docstring(signature.function), tool)
    result, found = read_result(signature, tool)
    if arguments is None or result is None:
        return None, [*problems, *found]
    read = RegisteredRead(
        name=signature.name,
        function=signature.function,
        is_async=signature.is_async,
        arguments=arguments,
        result=result,
        call_parameter=signature.call_parameter,
        undo_parameter=signature.undo_parameter,
    )
    return read, [*problems, *found]


def _undo(
    signature: Signature, traits: UndoTraits, role: Literal["undo", "part"], tool: str
) -> tuple[RegisteredUndo | None, list[Problem]]:
    arguments: Arguments | None
    arguments, problems = read_arguments(signature, read_docstring(signature.function), tool)
    problems += _check.check_timeout(tool, traits.timeout_s, signature.where)
    if role == "part" and signature.call_parameter:
        text = "a part takes a Call, but it runs when the call is over"
        problems.append(Problem(tool, text, "take an `Undo`; it has `call_key`", signature.where))
    if arguments is None:
        return None, problems
    undo = RegisteredUndo(
        name=signature.name,
        function=signature.function,
        is_async=signature.is_async,
        role=role,
        arguments=arguments,
        undo_parameter=signature.undo_parameter,
        traits=traits,
    )
    return undo, problems


def _probe(companion: Companion | None) -> RegisteredProbe | None:
    if companion is None:
        return None
    signature = companion.signature
    return RegisteredProbe(
        name=signature.name,
        function=signature.function,
        is_async=signature.is_async,
        parameters=tuple(signature.parameters),
        call_parameter=signature.call_parameter,
    )


def _lost(companions: Sequence[Companion], forwards: Sequence[Forward]) -> list[Problem]:
    """Return a problem for each function whose forward action is no tool of this registry."""
    known: list[Callable[..., Any]] = [forward.signature.function for forward in forwards]
    names = [forward.signature.name for forward in forwards]
    problems: list[Problem] = []
    for companion in companions:
        if companion.forward not in known:
            name = name_of(companion.forward)
            text = (
                f"`{companion.signature.name}` is the {companion.role} of `{name}`, which is no tool of this registry"
            )
            fix = f"put `@registry.tool` on it{did_you_mean(name, names)}"
            problems.append(Problem(name, text, fix, companion.signature.where))
    return problems
