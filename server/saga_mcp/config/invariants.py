"""`[[invariants]]`: the rules of a config (SEMANTICS.md S9.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from pydantic import Field

from saga_mcp.config.findings import Findings
from saga_mcp.config.models import Condition
from saga_mcp.config.problems import KeyPath
from saga_mcp.config.table import Table
from saga_mcp.config.validate import validate
from saga_mcp.tools.binding import TemplateError, compile_condition
from saga_mcp.tools.rules import RULE_VARIABLES, WrittenRule
from saga_mcp.tools.secret import arguments_in


class InvariantTable(Table):
    """A rule that has to hold after each step; where it does not, the saga is undone in its name."""

    name: str = Field(min_length=1, description="how people and agents are told of it")
    check: Condition = Field(
        description="`${...}` over `results` (the last result of each tool, by the name agents see), and `args` and "
        "`result` of the step that has just succeeded. Without a value it does not hold"
    )


def read_invariants(content: object, taken: Collection[str], findings: Findings) -> tuple[WrittenRule, ...]:
    """Return the rules that the config writes out.

    Args:
        content: What stands under `invariants`.
        taken: Names of the rules that the code has.
        findings: Where problems go.
    """
    if not isinstance(content, list):
        findings.problem(("invariants",), "must be a list of tables: [[invariants]]")
        return ()
    return tuple(_rules(cast("list[object]", content), taken, findings))


def judged(content: object) -> frozenset[str]:
    """Return the arguments that the rules look at, whatever is wrong with them; an empty name: all."""
    checks = [each.get("check") for each in _tables(content)]
    return frozenset[str]().union(*(arguments_in(check) for check in checks if isinstance(check, str)))


def _tables(content: object) -> list[dict[str, object]]:
    found = cast("list[object]", content) if isinstance(content, list) else []
    return [cast("dict[str, object]", each) for each in found if isinstance(each, dict)]


def _rules(content: list[object], taken: Collection[str], findings: Findings) -> Iterator[WrittenRule]:
    names = set(taken)
    for number, each in enumerate(content):
        path: KeyPath = ("invariants", number)
        read = validate(InvariantTable, each, path, findings)
        if read is None:
            continue
        name = read.table.name
        if name in names:
            findings.problem((*path, "name"), f"there is another invariant {name}; rename one")
        names.add(name)
        try:
            yield WrittenRule(name, compile_condition(read.table.check, variables=RULE_VARIABLES))
        except TemplateError as error:
            for problem in error.problems:
                findings.problem((*path, "check"), str(problem))
