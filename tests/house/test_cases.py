"""The public failure reports that this project answers, by number, and the tests that show that each does not happen.

Each is something that went wrong for people who run sagas, agents or MCP servers. A test that shows the right outcome
is marked `@pytest.mark.case(NUMBER)`, and its name is the sentence to read.
"""

import ast
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

TESTS = Path(__file__).parents[1]
HIGHEST = 108
LEFT_OUT = frozenset(
    chain(
        (5, 6, 9, 13, 21, 24, 25, 30, 35, 36, 39, 42, 46, 47, 50, 53, 57, 60, 64, 68, 71, 74, 77),
        (83, 84, 87, 89, 98, 102, 103, 105, 107),
    )
)
"""Numbers that no report has."""

IN_PART: Mapping[int, str] = {
    62: "a metric: there are none, alerts tell it",
}
"""Shown but for what there is not."""


def marked() -> Iterator[int]:
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield from chain.from_iterable(map(numbers, node.decorator_list))


def numbers(decorator: ast.expr) -> list[int]:
    """The numbers of a `@pytest.mark.case(...)`."""
    match decorator:
        case ast.Call(func=ast.Attribute(attr="case")):
            return [ast.literal_eval(argument) for argument in decorator.args]
        case _:
            return []


def test_each_report_is_shown_by_a_test() -> None:
    shown, known = set(marked()), set(range(1, HIGHEST + 1)) - LEFT_OUT
    assert known - shown == set(), "not shown"
    assert shown - known == set(), "no such report"


def test_what_is_shown_in_part_is_shown() -> None:
    assert IN_PART.keys() - set(marked()) == set()
