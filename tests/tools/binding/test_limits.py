"""How much an expression may be given (S11.3), and what it costs to load the engine."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType
from typing import cast

import pytest

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding import CannotBind, TemplateError, compile_template, runtime

NAMES = frozenset({"args", "text", "capture", "now"})


def bind(expression: str, **values: JsonValue) -> JsonValue:
    return compile_template(f"${{{expression}}}", variables=NAMES).bind(values)


def nested(levels: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


def test_what_an_expression_names_may_hold_256_kilobytes() -> None:
    assert bind("size(text)", text="x" * 255_998) == 255_998
    with pytest.raises(CannotBind, match="larger than 256 kB"):
        bind("size(text)", text="x" * 255_999)
    with pytest.raises(CannotBind, match="larger than 256 kB"):
        bind("size(text)", text="é" * 128_000)


def test_an_expression_has_at_most_a_thousand_words_and_signs() -> None:
    assert bind("1" + " + 1" * 499) == 500
    for longer in ("1" + " + 1" * 500, "1" + " + 1" * 20_000, "args" + ".a" * 10_000):
        with pytest.raises(TemplateError, match="longer than 1,000 words and signs"):
            compile_template(f"${{{longer}}}", variables=NAMES)


def test_the_limit_is_on_all_that_is_named_together() -> None:
    half = "x" * 130_000
    assert bind("size(text)", text=half, args={"a": half}) == 130_000
    with pytest.raises(CannotBind, match="larger than 256 kB"):
        bind("size(text) + size(args.a)", text=half, args={"a": half})


def test_what_is_not_named_does_not_count() -> None:
    """A 1 MiB capture must not stop the `when` beside it."""
    big = "x" * 1_000_000
    assert bind("!args.found", args={"found": False, "text": big}) is True
    assert bind("has(args.found)", args={"text": big}) is False


def test_a_plain_path_hands_on_any_size() -> None:
    big = "x" * 1_000_000
    assert bind("args.text", args={"text": big}) == big


def test_what_was_read_for_a_step_may_be_searched_at_a_mebibyte() -> None:
    """A file is captured as text and, by some servers, once more as its structured result."""
    big = "x" * 2**20
    found: JsonValue = {"found": True, "text": big, "result": {"content": big}}
    assert bind("!now.text.contains('\\ufffd') && capture.text == now.text", now=found, capture=found) is True
    assert bind("now", now=found) == found
    with pytest.raises(CannotBind, match="texts it names are larger than 4 MiB"):
        bind("size(now.text) > 0", now={"text": "x" * (2**22 + 1)})


@pytest.mark.parametrize(
    "expression", ["now.text.split(',')", "now.list.filter(x, x != '')", "regex_all(now.text, 'a')"]
)
def test_what_makes_lists_sees_no_more_of_it_than_of_anything_else(expression: str) -> None:
    with pytest.raises(CannotBind, match="larger than 256 kB"):
        bind(expression, now={"text": "a," * 200_000, "list": ["x" * 300_000]})


@pytest.mark.parametrize("expression", ["args.x", "size(args.x) == 1", "args.x == args.x"])
def test_values_may_be_64_levels_deep(expression: str) -> None:
    bind(expression, args={"x": nested(64)})
    with pytest.raises(CannotBind, match="deeper than 64"):
        bind(expression, args={"x": nested(65)})


def test_an_enormously_deep_value_is_refused_and_not_a_crash() -> None:
    with pytest.raises(CannotBind, match="deeper than 64"):
        bind("size(args.x)", args={"x": nested(100_000)})
    with pytest.raises(CannotBind, match="json:"):
        bind("json(text)", text="[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize(
    "expression", ["args.l.filter(x, x > 0)", "args.l.distinct()", "regex_all(text, '.').map(x, x)"]
)
def test_what_takes_the_square_of_its_items_sees_few(expression: str) -> None:
    """Measured: 20,000 items, within the byte limit, held the thread for 8 s."""
    bind(expression, args={"l": list[JsonValue](range(2000))}, text="x" * 2000)
    with pytest.raises(CannotBind, match="more than 2000 items"):
        bind(expression, args={"l": list[JsonValue](range(2001))}, text="x" * 2001)


def test_an_expression_too_deep_for_the_parser_is_a_problem() -> None:
    with pytest.raises(TemplateError):
        bind("(" * 5000 + "1" + ")" * 5000)


def test_what_is_no_json_value_is_refused() -> None:
    with pytest.raises(CannotBind, match="bytes, which is not a JSON value"):
        bind("size(args.x)", args=cast("JsonValue", {"x": b"x"}))


def test_a_command_line_that_is_already_loaded_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ModuleType("cel.cli")
    monkeypatch.setitem(sys.modules, "cel.cli", loaded)
    importlib.reload(runtime)
    assert sys.modules["cel.cli"] is loaded


def test_loading_the_engine_loads_no_command_line() -> None:
    """Measured: 0.4 s and 27 MB of a server's start, for a REPL."""
    script = (
        "import sys\n"
        "from saga_mcp.tools.binding import compile_template\n"
        "assert compile_template('${1 + 1}', variables=frozenset()).bind({}) == 2\n"
        "print(sorted({'prompt_toolkit', 'typer', 'cel.cli'} & sys.modules.keys()))\n"
        "import cel.cli\n"
        "print(cel.cli.__file__ is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "True"]
