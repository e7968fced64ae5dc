"""Judges every expression and every call of a config by the schemas of the tools that they speak of. Pure.

What a person wrote is wrong only where it is wrong for every call that the schemas allow; where only some of them would
go wrong it is a warning; and where the schemas do not tell, nothing is said but that it was not tried.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from saga_mcp.cli.checking.places import Call, Shape, Spot
from saga_mcp.cli.checking.samples import Size, samples_of
from saga_mcp.cli.checking.schemas import (
    Absent,
    Found,
    Schema,
    as_schema,
    is_open,
    look_up,
    properties,
    required,
    says_all,
)
from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import did_you_mean, show_key
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.binding import (
    CannotBind,
    Condition,
    Path,
    Placed,
    TemplateError,
    Why,
    compile_condition,
    compile_template,
)
from saga_mcp.tools.binding.values import show
from saga_mcp.tools.upstream.schema import InputSchema

_MOST_WORLDS = 1000
_Evaluate: TypeAlias = Callable[[Mapping[str, JsonValue]], JsonValue]


@dataclass(frozen=True, slots=True)
class _World:
    """One state of all variables that an expression sees."""

    full: bool
    values: Mapping[str, JsonValue]


class Judge:
    """Judges the places of one config.

    Args:
        shapes: What is known of tools, by name in the config.
        complete: Upstreams all of whose tools are in `shapes`.
        findings: Where problems go; what is noted there already is not judged again.
    """

    def __init__(self, shapes: Mapping[str, Shape], complete: frozenset[str], findings: Findings) -> None:
        self._shapes = shapes
        self._complete = complete
        self._findings = findings
        # What an expression cannot be evaluated on is told as a finding; the library's own line of it is noise.
        logging.getLogger("cel").setLevel(logging.CRITICAL)
        self._wrong_before = frozenset(problem.key for problem in findings.problems)
        self.untried: list[str] = []
        """Keys of expressions over results of which no schema tells anything."""

    def look_at(self, place: Spot | Call) -> None:
        """Judge one place."""
        key = show_key(place.path)
        if any(key == wrong or key.startswith((f"{wrong}.", f"{wrong}[")) for wrong in self._wrong_before):
            return
        if isinstance(place, Call):
            self.call(place)
        else:
            self.spot(place)

    def call(self, call: Call) -> None:
        """Compare a call with what its tool takes."""
        upstream = call.tool.partition(".")[0]
        if upstream not in self._complete:
            return
        shape = self._shapes.get(call.tool)
        if shape is None:
            message = f"there is no tool {call.tool}{did_you_mean(call.tool, self._shapes)}"
            self._findings.problem((*call.path, "tool"), message)
            return
        known = properties(shape.takes)
        for name in call.args:
            if name not in known and not is_open(shape.takes):
                message = f"{call.tool} has no argument {name}{did_you_mean(name, known)}"
                self._findings.problem((*call.path, "args", name), message)
        for name in required(shape.takes):
            if name not in call.args and "default" not in as_schema(known.get(name)):
                self._findings.problem((*call.path, "args"), f"{call.tool} needs {name}")

    def spot(self, spot: Spot) -> None:
        """Evaluate on samples whatever an expression may see."""
        variables = frozenset(spot.scope)
        try:
            condition = (
                compile_condition(cast("str | bool", spot.value), variables=variables) if spot.condition else None
            )
            template = compile_template(spot.value, variables=variables)
            gates = [compile_condition(cast("str | bool", gate.value), variables=variables) for gate in spot.gates]
        except TemplateError:
            return  # noted where the file was read
        names = template.names.union(*(gate.names for gate in gates))
        worlds = list(_worlds(spot.scope, names))
        gated = [world for world in worlds if all(_holds(gate, world.values) for gate in gates)]
        judged = [
            self._expression(spot, placed, condition, gated or worlds, certain=bool(gated))
            for placed in template.expressions
        ]
        if all(judged) and spot.argument is not None:
            self._argument(spot, [_outcome(template.bind, world) for world in gated or worlds])

    def _expression(
        self, spot: Spot, placed: Placed, condition: Condition | None, worlds: list[_World], *, certain: bool
    ) -> bool:
        """Whether its values are worth looking at."""
        value = placed.value if condition is None else condition.verdict if spot.undecided else condition.holds
        outcomes = [_outcome(value, world) for world in worlds]
        failures = [each for each in outcomes if each.failed is not None and each.failed.why is not Why.VALUE]
        whole: Schema = {"properties": cast("JsonObject", spot.scope), "additionalProperties": False}
        verdicts = [(path, look_up(whole, path)) for path in placed.expression.paths]
        absent = [(path, verdict) for path, verdict in verdicts if isinstance(verdict, Absent)]
        for path, verdict in absent:
            self._absent(spot, path, verdict, certainly=bool(failures))
        if absent:
            return False
        if not worlds or not all(isinstance(each, Found) and all(map(says_all, each.schemas)) for _, each in verdicts):
            self.untried.append(show_key(spot.path))
            return False
        full = [each for each in outcomes if each.full]
        if (wrong := [each.failed for each in full if each in failures]) and len(wrong) == len(full):
            self._findings.problem(spot.path, f"cannot be evaluated: {_reason(wrong[0])}")
            return False
        if failures and certain:
            self._findings.warn(
                spot.path, f"{_reason(failures[0].failed)} for some calls that the schemas allow: {spot.otherwise}"
            )
        if spot.listed and any(not isinstance(each.value, list) for each in outcomes if each.failed is None):
            self._findings.problem(spot.path, "has to come to a list")
        return True

    def _absent(self, spot: Spot, path: Path, verdict: Absent, *, certainly: bool) -> None:
        name = str(path[verdict.depth])
        message = f"there is no {show(path[: verdict.depth + 1])}{did_you_mean(name, verdict.known)}"
        if certainly:
            self._findings.problem(spot.path, message)
        else:
            self._findings.warn(spot.path, f"{message}, so this is always the same")

    def _argument(self, spot: Spot, outcomes: list[_Outcome]) -> None:
        """Compare what an argument comes to with what the tool takes there."""
        assert spot.argument is not None  # noqa: S101 - the caller has looked
        tool, name = spot.argument
        shape = self._shapes.get(tool)
        taken = None if shape is None else properties(shape.takes).get(name)
        if taken is None:
            return
        schema = InputSchema({"type": "object", "properties": {name: taken}})
        values = [each for each in outcomes if each.failed is None]
        unfit = {id(each): schema.problems(schema.decoded({name: each.value})) for each in values}
        full = [each for each in values if each.full] or values
        if full and all(unfit[id(each)] for each in full):
            said = unfit[id(full[0])][0].removeprefix(f"{name}: ")
            self._findings.problem(spot.path, f"{tool} does not take this: {said}")
        elif any(each.value is None and unfit[id(each)] for each in values):
            self._findings.warn(spot.path, f"may be null, which {tool} does not take: {spot.otherwise}")


@dataclass(frozen=True, slots=True)
class _Outcome:
    full: bool
    value: JsonValue = None
    failed: CannotBind | None = None


def _outcome(evaluate: _Evaluate, world: _World) -> _Outcome:
    try:
        return _Outcome(world.full, value=evaluate(world.values))
    except CannotBind as failed:
        return _Outcome(world.full, failed=failed)


def _worlds(scope: Mapping[str, Schema], names: frozenset[str]) -> Iterator[_World]:
    ordered = sorted(names)
    choices = [samples_of(scope[name]) for name in ordered]
    for chosen in itertools.islice(itertools.product(*choices), _MOST_WORLDS):
        values = {name: sample.value for name, sample in zip(ordered, chosen, strict=True)}
        yield _World(all(sample.size is Size.FULL for sample in chosen), values)


def _holds(gate: Condition, values: Mapping[str, JsonValue]) -> bool:
    try:
        return gate.holds(values)
    except CannotBind:
        return False


def _reason(failed: CannotBind | None) -> str:
    return "" if failed is None else failed.reason
