"""Templates and conditions: any config value whose strings hold `${...}`.

Compiled once at load, with every problem at once; bound as often as a tool is called. Binding is pure and synchronous.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding.cel import Expression, compile_expression
from saga_mcp.tools.binding.errors import CannotBind, Fault, Problem, TemplateError, Unfit, Why
from saga_mcp.tools.binding.scanner import Hole, split
from saga_mcp.tools.binding.values import Path, as_text


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """An expression and where in its template it stands (`.args.owner`)."""

    path: str
    expression: Expression

    def value(self, values: Mapping[str, JsonValue]) -> JsonValue:
        """Evaluate.

        Raises:
            CannotBind: There is no value.
        """
        try:
            return self.expression.evaluate(values)
        except Unfit as unfit:
            raise CannotBind(self.path, self.expression.source, str(unfit), unfit.why) from None

    def text(self, values: Mapping[str, JsonValue]) -> str:
        """Evaluate, for the inside of longer text.

        Raises:
            CannotBind: There is no value, or it cannot be written out.
        """
        value = self.value(values)
        try:
            return as_text(value)
        except Unfit as unfit:
            raise CannotBind(self.path, self.expression.source, str(unfit), unfit.why) from None


_Node: TypeAlias = (
    "bool | int | float | str | Placed | tuple[str | Placed, ...] | list[_Node] | dict[str, _Node] | None"
)
"""A config value with its strings compiled: `Placed` is exactly one `${...}`, a tuple is longer text around some."""


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A compiled config value.

    Attributes:
        expressions: Every expression, with its place.
        names: The variables it needs; binding without one of them fails.
        paths: The plain paths it follows, such as `("result", "lead_id")`, to be compared with schemas. One that is
            only asked for by `has()` is among them.
    """

    expressions: tuple[Placed, ...]
    names: frozenset[str]
    paths: tuple[Path, ...]
    _root: _Node

    def bind(self, values: Mapping[str, JsonValue]) -> JsonValue:
        """Return the value with every expression replaced by what it comes to.

        A plain path hands on the very object that it finds: it is not copied.

        Args:
            values: The variables by name; more than `names` may be given.

        Raises:
            CannotBind: One of the expressions has no value here.
        """
        return _bind(self._root, values)


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A compiled condition: a boolean, or one expression that has to come to a boolean.

    Attributes:
        names: The variables it needs.
        paths: The plain paths it follows, as in `Template`.
    """

    names: frozenset[str]
    paths: tuple[Path, ...]
    _decided: bool | Placed

    @property
    def searched(self) -> tuple[Path, ...]:
        """Those of the paths of which more is asked than whether they equal something, or are one of several."""
        return () if isinstance(self._decided, bool) else self._decided.expression.searched

    def holds(self, values: Mapping[str, JsonValue]) -> bool:
        """Return whether it holds.

        Raises:
            CannotBind: It has no value here, or one that is no boolean. What that means is by S11.3 the caller's to
                say; it never means true.
        """
        return self._decide(values, undecided=False) is True

    def verdict(self, values: Mapping[str, JsonValue]) -> bool | None:
        """Return whether it holds; None where it comes to null, which says that it cannot tell.

        Raises:
            CannotBind: As `holds`.
        """
        return self._decide(values, undecided=True)

    def _decide(self, values: Mapping[str, JsonValue], *, undecided: bool) -> bool | None:
        if isinstance(self._decided, bool):
            return self._decided
        value = self._decided.value(values)
        if value is None and undecided:
            return None
        if not isinstance(value, bool):
            said = "a condition has to come to true or false"
            raise CannotBind("", self._decided.expression.source, said, Why.TYPES)
        return value


def compile_template(value: JsonValue, *, variables: frozenset[str]) -> Template:
    """Compile a config value.

    Args:
        value: Any JSON value; its strings, but not its keys, may hold `${CEL}`.
        variables: The names that expressions may use at this place of the config.

    Raises:
        TemplateError: With every problem in it.
    """
    compiler = _Compiler(variables)
    root = compiler.node(value, "")
    compiler.refuse_problems()
    return Template(tuple(compiler.placed), *_uses(compiler.placed), root)


def compile_condition(condition: str | bool, *, variables: frozenset[str]) -> Condition:  # noqa: FBT001 - as written in the config: `approval = true`
    """Compile a condition: `true`, `false` or exactly one `${CEL}`.

    Args:
        condition: As the config has it.
        variables: The names that the expression may use at this place of the config.

    Raises:
        TemplateError: With every problem in it.
    """
    compiler = _Compiler(variables)
    root = compiler.node(condition, "")
    if not compiler.problems and not isinstance(root, bool | Placed):
        compiler.problem("", str(condition), Fault(0, "a condition is true, false or exactly one ${...}"))
    compiler.refuse_problems()
    return Condition(*_uses(compiler.placed), cast("bool | Placed", root))


def _uses(placed: Iterable[Placed]) -> tuple[frozenset[str], tuple[Path, ...]]:
    paths = tuple(dict.fromkeys(path for each in placed for path in each.expression.paths))
    return frozenset(cast("str", path[0]) for path in paths), paths


def _bind(node: _Node, values: Mapping[str, JsonValue]) -> JsonValue:
    if isinstance(node, Placed):
        return node.value(values)
    if isinstance(node, tuple):
        return "".join(part if isinstance(part, str) else part.text(values) for part in node)
    if isinstance(node, list):
        return [_bind(item, values) for item in node]
    if isinstance(node, dict):
        return {key: _bind(item, values) for key, item in node.items()}
    return node


class _Compiler:
    """Walks one config value and collects what it finds."""

    def __init__(self, variables: frozenset[str]) -> None:
        self._variables = variables
        self.placed: list[Placed] = []
        self.problems: list[Problem] = []

    def refuse_problems(self) -> None:
        if self.problems:
            raise TemplateError(self.problems)

    def problem(self, path: str, text: str, fault: Fault) -> None:
        self.problems.append(Problem(path, text, fault))

    def node(self, value: object, path: str) -> _Node:
        if isinstance(value, str):
            return self._string(value, path)
        if isinstance(value, list):
            return [self.node(item, f"{path}[{at}]") for at, item in enumerate(cast("list[object]", value))]
        if isinstance(value, dict):
            return {
                str(key): self._member(key, item, path) for key, item in cast("dict[object, object]", value).items()
            }
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        self.problem(path, str(value), Fault(0, f"{value} is not a JSON value; write it as a string"))
        return None

    def _member(self, key: object, value: object, path: str) -> _Node:
        name = str(key)
        place = f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"
        if "${" in name:
            self.problem(place, name, Fault(name.index("${"), "a key cannot hold ${...}"))
        return self.node(value, place)

    def _string(self, text: str, path: str) -> _Node:
        if "${" not in text:
            return text
        parts, faults = split(text)
        compiled: list[str | Placed] = []
        for part in parts:
            if isinstance(part, str):
                compiled.append(part)
            elif placed := self._hole(part, path, faults):
                compiled.append(placed)
        for fault in faults:
            self.problem(path, text, fault)
        if len(compiled) == 1:
            return compiled[0]
        return tuple(compiled)

    def _hole(self, hole: Hole, path: str, faults: list[Fault]) -> Placed | None:
        if not hole.tokens:
            return None
        expression = compile_expression(hole, self._variables)
        if isinstance(expression, list):
            faults += expression
            return None
        placed = Placed(path, expression)
        self.placed.append(placed)
        return placed
