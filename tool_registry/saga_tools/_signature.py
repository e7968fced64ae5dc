"""Reads the signature of a function a tool author wrote: its parameters, their types, and where `Call` or `Undo` goes.

Everything the registry later needs of `inspect` and `typing` is done here once, at registration, so that the rest works
on plain values.
"""

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from saga_tools._context import Call, Undo
from saga_tools._errors import Problem

REFUSED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "`*{}`",
    inspect.Parameter.VAR_KEYWORD: "`**{}`",
    inspect.Parameter.POSITIONAL_ONLY: "positional-only `{}`",
}
MISSING = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that takes a value of the call; `annotation` and `default` are `MISSING` where there is none."""

    name: str
    annotation: Any
    default: Any


@dataclass(frozen=True, slots=True)
class Signature:
    """What registration needs to know of a function.

    Attributes:
        name: The function's own name.
        function: The function.
        is_async: Whether calling it returns an awaitable; a plain function belongs in a thread.
        parameters: Those that take values, in order; not those that take a `Call` or an `Undo`.
        returns: The return annotation; `MISSING` without one.
        call_parameter: Name of the parameter that takes the `Call`.
        undo_parameter: Name of the parameter that takes the `Undo`.
        undo_result: X of its annotation `Undo[X]`; `Any` for a bare `Undo`.
        where: `file:line`.
        problems: Why it cannot be registered, if so.
    """

    name: str
    function: Callable[..., Any]
    is_async: bool
    parameters: Mapping[str, Parameter]
    returns: Any
    call_parameter: str | None
    undo_parameter: str | None
    undo_result: Any
    where: str
    problems: tuple[Problem, ...]


def read_signature(function: Callable[..., Any], tool: str) -> Signature:
    """Read a function's signature; never raises, what is wrong is in `problems` under the name of `tool`."""
    where = _where(function)
    problems: list[Problem] = []
    try:
        hints = get_type_hints(function, localns=_local_names(), include_extras=True)
    except Exception as error:  # noqa: BLE001  # an annotation is the author's code: evaluating it may raise anything
        hints = {}
        fix = "import the name at module level, outside `if TYPE_CHECKING`"
        problems.append(Problem(tool, f"an annotation cannot be resolved: {error}", fix, where))
    written: Mapping[str, inspect.Parameter] = {}
    try:
        written = inspect.signature(function).parameters
    except (TypeError, ValueError):
        problems.append(Problem(tool, "its parameters cannot be read", "wrap it in a function of your own", where))
    parameters: dict[str, Parameter] = {}
    special: dict[type, tuple[str, object]] = {}
    for name, raw in written.items():
        annotation = hints.get(name, MISSING)
        marker = _special(annotation)
        if raw.kind in REFUSED_KINDS:
            shown = REFUSED_KINDS[raw.kind].format(name)
            problems.append(Problem(tool, f"{shown} has no place in a JSON Schema", "name every parameter", where))
        elif marker is None:
            parameters[name] = Parameter(name, annotation, raw.default)
        elif marker[0] in special:
            fix = f"keep `{special[marker[0]][0]}`"
            problems.append(Problem(tool, f"a second parameter takes a {marker[0].__name__}: `{name}`", fix, where))
        else:
            special[marker[0]] = (name, marker[1])
    undo_name, undo_result = special.get(Undo, (None, Any))
    return Signature(
        name=name_of(function),
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        parameters=types.MappingProxyType(parameters),
        returns=hints.get("return", MISSING),
        call_parameter=special.get(Call, (None, None))[0],
        undo_parameter=undo_name,
        undo_result=undo_result,
        where=where,
        problems=tuple(problems),
    )


def name_of(function: Callable[..., object]) -> str:
    """Return a function's own name, or its class's for another callable."""
    return getattr(function, "__name__", type(function).__name__)


def describe(annotation: object) -> str:
    """Return an annotation as its author would write it."""
    if annotation is type(None):
        return "None"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def accepts(target: object, source: object) -> bool:
    """Return whether a value annotated `source` may be given where `target` is expected; in doubt, yes.

    A type checker does this properly; here only a plain mismatch is refused.
    """
    target, source = bare(target), bare(source)
    if target == source or MISSING in (target, source) or Any in (target, source) or target is object:
        return True
    if is_union(source):
        return all(accepts(target, part) for part in get_args(source))
    if is_union(target):
        return any(accepts(part, source) for part in get_args(target))
    target_class, source_class = get_origin(target) or target, get_origin(source) or source
    if not (isinstance(target_class, type) and isinstance(source_class, type)):
        return True
    try:
        related = issubclass(source_class, target_class) or (target_class, source_class) == (float, int)
    except TypeError:  # a Protocol or a TypedDict cannot answer
        return True
    same_shape = target_class is source_class and len(get_args(target)) == len(get_args(source))
    return related and (not same_shape or all(map(accepts, get_args(target), get_args(source))))


def says_yes_or_no(annotation: object) -> bool:
    """Return whether an annotation is `bool`, optional or not."""
    annotation = bare(annotation)
    parts = get_args(annotation) if is_union(annotation) else (annotation,)
    return bool in map(bare, parts)


def may_be_bool(annotation: object) -> bool:
    """Return whether what is annotated so may be a bool; an `int` is none, although Python takes one for it."""
    annotation = bare(annotation)
    if any(annotation is each for each in (MISSING, Any, object, bool)):
        return True
    if is_union(annotation):
        return any(map(may_be_bool, get_args(annotation)))
    # In doubt, yes: an alias, a type variable and a Literal are no classes.
    return not isinstance(get_origin(annotation) or annotation, type)


def is_union(annotation: object) -> bool:
    """Return whether an annotation is a union, however written."""
    return get_origin(annotation) in (Union, types.UnionType)


def bare(annotation: object) -> object:
    """Return an annotation without its `Annotated` metadata."""
    return bare(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


def _special(annotation: object) -> tuple[type, object] | None:
    """Return `(Call, None)` or `(Undo, X)` for a parameter that takes one, also an optional one."""
    annotation = bare(annotation)
    if is_union(annotation):
        found = [marker for part in get_args(annotation) if (marker := _special(part))]
        return found[0] if found else None
    if annotation is Call:
        return Call, None
    if annotation is Undo:
        return Undo, Any
    return (Undo, get_args(annotation)[0]) if get_origin(annotation) is Undo else None


def _local_names() -> dict[str, Any]:
    """Return the local names at the place of registration, for annotations that are text.

    Classes defined in a function are in no global namespace; `get_type_hints` looks in the function's own globals first
    for everything else.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _where(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""
