"""Where `${...}` begins and ends, and what is literal text (DESIGN.md 5.1)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saga_mcp.tools.binding import TemplateError, compile_template
from saga_mcp.tools.binding.scanner import Hole, split

UNTIMED = settings(deadline=None)  # a busy machine is no failure
NAMES = frozenset({"args"})

# CEL has no surrogates, and a triple-quoted or raw literal cannot hold everything: see each.
CHARACTERS = st.characters(codec="utf-8")
AWKWARD = st.text(st.sampled_from("}{$'\"\\ a/n\n") | CHARACTERS, max_size=12)


def bind(text: str, **values: object) -> object:
    return compile_template(text, variables=NAMES).bind({"args": json.loads(json.dumps(values))})


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("plain", "plain"),
        ("", ""),
        ("5 $ {x} $x }", "5 $ {x} $x }"),
        ("$${args.x}", "${args.x}"),
        ("a $${ b", "a ${ b"),
        ("$$${args.x}", "$${args.x}"),
        ("${'$'}${args.x}", "$7"),
        ("${args.x}${args.x}", "77"),
        ("<${args.x}>", "<7>"),
        ("${ args.x }", 7),
        (" ${args.x}", " 7"),
        ("$${${args.x}}", "${7}"),
        ("${args.x // } is not the end\n}", 7),
        ("${{'a}': {'b': 1}}['a}'].b}", 1),
        ("${'}' + \"}\" + '''}'}''' + \"\"\"}\"}\"\"\" + r'\\}'}", "}" * 2 + "}'}" + '}"}' + "\\}"),
        (r"${'\'}' + '\\'}", "'}\\"),
        ("${size(b'}')}", 1),
    ],
)
def test_a_string_is_split_where_cel_says_the_expression_ends(text: str, bound: object) -> None:
    assert bind(text, x=7) == bound


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("ab ${args.x", 3, "not closed"),
        ("${{'a': 1}", 0, "not closed"),
        ("${'abc}", 2, "string literal is not closed"),
        ('ab ${args.x + "}', 14, "string literal is not closed"),
        ("x ${}", 4, "empty"),
        ("${ }", 2, "empty"),
        ("${size(rb'}')}", 9, "not CEL"),
        ("${args.x +}", 10, "not CEL"),
        ("${'é' +\n+}", 8, "not CEL"),
        ("${regex(args.x}", 14, "not CEL"),
        ("${'\\q'}", 2, "not CEL"),
        ("${args['\\q']}", 2, "not CEL"),
        ("${'\ud800'}", 2, "not a CEL expression"),
    ],
)
def test_what_cannot_be_split_or_parsed_is_a_problem_with_its_position(text: str, position: int, says: str) -> None:
    with pytest.raises(TemplateError) as refused:
        bind(text)
    problem, *_ = refused.value.problems
    assert (problem.fault.position, problem.text) == (position, text)
    assert says in problem.fault.message


def literal(value: str, quote: str) -> str:
    """Write a CEL string literal in one of its forms, or in the first where that form cannot hold the value."""
    escaped = "".join(c if c.isalnum() or c in "}{$ " else f"\\U{ord(c):08x}" for c in value)
    if quote == "r'" and not set(value) & set("'\n\r"):
        return f"r'{value}'"
    if quote == "'''" and not set(value) & set("'\\\r"):
        return f"'''{value}'''"
    if quote == '"':
        return f'"{escaped}"'
    return f"'{escaped}'"


@UNTIMED
@given(st.lists(st.tuples(AWKWARD, AWKWARD, st.sampled_from(["'", '"', "'''", "r'"]))), AWKWARD)
def test_literals_of_any_content_never_move_the_end_of_an_expression(
    pieces: list[tuple[str, str, str]], tail: str
) -> None:
    """Whatever text and string literals hold, the parts come back as they were put in."""

    def plain(text: str) -> str:
        # A dollar sign before `${` would escape it; the documented way round is an expression.
        return text.replace("$", "")

    source = "".join(f"{plain(text)}${{{literal(value, quote)}}}" for text, value, quote in pieces) + plain(tail)
    bound = compile_template(source, variables=NAMES).bind({})
    assert bound == "".join(plain(text) + value for text, value, _ in pieces) + plain(tail)


@UNTIMED
@given(AWKWARD)
def test_splitting_loses_nothing(text: str) -> None:
    parts, faults = split(text)
    if not faults:
        again = "".join(f"${{{p.source}}}" if isinstance(p, Hole) else p.replace("${", "$${") for p in parts)
        assert again == text


@UNTIMED
@given(AWKWARD)
def test_an_escaped_text_binds_to_itself(text: str) -> None:
    escaped = text.replace("${", "$${")
    assert compile_template(escaped, variables=NAMES).bind({}) == text
