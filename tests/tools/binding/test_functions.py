"""The functions of expressions, and the names that are none (DESIGN.md 5.1, S11.3)."""

from __future__ import annotations

import logging

import pytest

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding import CannotBind, TemplateError, compile_template

NAMES = frozenset({"args", "text"})


def bind(expression: str, **values: JsonValue) -> JsonValue:
    return compile_template(f"${{{expression}}}", variables=NAMES).bind(values)


@pytest.mark.parametrize(
    ("expression", "bound"),
    [
        ("regex(text, 'b+')", "bb"),
        ("regex(text, 'a(b)(b)')", "b"),
        ("text.regex('x', 'none')", "none"),
        ("regex(text, 'x', null)", None),
        ("regex(text, '(x)?a', 'none')", "none"),
        ("regex('é1', '.([0-9])')", "1"),
        ("regex_all(text, '[ab]')", ["a", "b", "b"]),
        ("regex_all('k=1, m=2', '([a-z])=')", ["k", "m"]),
        ("regex_all(text, 'x')", []),
        ("""json('{"a": [1, 2.5, null]}')""", {"a": [1, 2.5, None]}),
        ("base64_decode('aMOp\\nIQ==')", "hé!"),
        ("text.matches('^ab+$')", True),
        ("text.startsWith('a') && text.endsWith('b') && text.contains('bb')", True),
        ("[1, 2].contains(2)", True),
        ("math.greatest([1, 3])", 3),
        ("'A,b'.lowerAscii().split(',').join('-')", "a-b"),
        ("sets.contains([1, 2], [1]) && base64.encode(b'hi') == 'aGk='", True),
        ("optional.of(1).value() + optional.none().orValue(2)", 3),
        ("type(1) == int && type('') == string", True),
        ("timestamp('2026-01-01T00:00:00Z').getFullYear()", 2026),
    ],
)
def test_a_function_is_there(expression: str, bound: JsonValue) -> None:
    assert bind(expression, text="abb") == bound


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("foo(1)", "unknown function foo"),
        ("lenght(text)", "unknown function lenght"),
        ("regexp(text, 'a')", "unknown function regexp; did you mean regex?"),
        ("args.startWith('a')", "unknown method startWith; did you mean startsWith?"),
        ("math.abz(1)", "unknown function math.abz; did you mean math.abs?"),
        ("arg.x", "unknown variable arg; did you mean args?"),
        ("[1].map(x, y)", "unknown variable y"),
        ("[1].map(x, x) == x", "unknown variable x"),
        ("[x, [1].map(x, x)]", "unknown variable x"),
        ("startsWith(text, 'a')", "startsWith is written x.startsWith(...)"),
        ("'1'.int()", "int is written int(x)"),
        ("map([1], x)", "map is written x.map(...)"),
        ("regex(text)", "regex does not take 1 arguments"),
        ("text.startsWith()", "startsWith does not take 1 arguments"),
        ("[1].map(x)", "map takes a name and an expression"),
        ("lists.range(5)", "unknown variable lists"),
        (".args", "a leading dot is not supported"),
        ("Foo{a: 1}", "message literals are not supported"),
        ("[1].exists(x, [2].all(y, y == x))", "all stands inside another comprehension; they do not nest"),
        ("regex(text, '(?<=a)b')", "not an RE2 pattern: invalid perl operator: (?<="),
        ("text.regex_all('(')", "not an RE2 pattern: missing ): ("),
        ("regex(text, b'a')", "a pattern is a string"),
        ("text.matches('(')", "not a pattern that matches() accepts"),
    ],
)
def test_what_the_engine_would_only_notice_when_it_runs_is_a_problem_at_load(expression: str, says: str) -> None:
    with pytest.raises(TemplateError) as refused:
        compile_template(f"${{{expression}}}", variables=NAMES)
    assert says in {str(each) for each in refused.value.problems}


def test_comprehensions_may_follow_each_other() -> None:
    assert bind("args.l.filter(x, x > 1).map(y, y * 2)", args={"l": [1, 2]}) == [4]
    assert bind("args.l.all(x, x > 0) && args.l.exists(x, x == 2)", args={"l": [1, 2]}) is True


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("regex(text, 'x')", "regex: the pattern does not match"),
        ("regex(text, args.p)", "regex: it does not accept these arguments"),
        ("json(text)", "json: the text is not JSON"),
        ("json('NaN')", "json: the text is not JSON"),
        ("json('[9223372036854775808]')", "json: what it names holds an integer outside 64 bits"),
        ("base64_decode('!')", "base64_decode: the text is not base64"),
        ("base64_decode('/w==')", "base64_decode: the decoded bytes are not UTF-8 text"),
        ("text.charAt(99)", "charAt: it does not accept these arguments"),
        ("bool(text)", "bool: it does not accept these arguments"),
    ],
)
def test_a_function_that_fails_says_so_without_the_values(
    expression: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine logs a failed function with its message, and its own errors quote operands (measured)."""
    with caplog.at_level(logging.DEBUG), pytest.raises(CannotBind) as refused:
        bind(expression, text="secret-4711", args={"p": "(secret-4711"})
    assert says in refused.value.reason
    assert refused.value.__cause__ is None
    assert "4711" not in f"{refused.value}{caplog.text}"


def test_overflow_is_reported_without_the_operands() -> None:
    with pytest.raises(CannotBind) as refused:
        bind("args.n * args.n", args={"n": 4711471147114711})
    assert "4711" not in str(refused.value)


def test_a_pattern_that_ruins_a_backtracking_engine_is_answered() -> None:
    """`re` would take longer than the age of the universe; the test's own time limit is the assertion."""
    text = "a" * 5000
    assert bind("regex(text, '^(a+)+$', 'no')", text=text + "!") == "no"
    assert bind("text.matches('^(a+)+$')", text=text + "!") is False
