"""How much a value holds, whatever JSON takes to write it."""

from __future__ import annotations

import json

import pytest

from saga_mcp.domain.values import JsonValue, bytes_of
from saga_mcp.tools.images import size_of
from saga_mcp.tools.port import ReadAnswer, ToolAnswer
from saga_mcp.tools.upstream.answers import kept_of


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 0),
        ('a\n"\\\t', 5),
        ("\u0434\u0430", 4),
        ("\ud800", 3),
        (None, 4),
        (True, 4),
        (False, 5),
        (-12, 3),
        (1.5, 3),
        ([], 0),
        (["a", ["bc", None]], 7),
        ({"text": "\n\n"}, 6),
    ],
)
def test_texts_count_as_utf_8_and_no_escape_or_bracket_counts(value: JsonValue, size: int) -> None:
    assert bytes_of(value) == size


def test_a_value_of_any_depth_is_weighed() -> None:
    value: JsonValue = "x"
    for _ in range(100_000):
        value = [value]
    assert bytes_of(value) == 1


def test_a_capture_of_lines_is_as_large_as_the_file_is() -> None:
    lines = '"quoted"\n' * 1000
    size, result = len(lines) + len("content"), {"content": lines}
    assert size_of(ReadAnswer(text=lines, result={"content": lines})) == size
    assert size_of(ReadAnswer(text=json.dumps(result), result={"content": lines})) == size
    assert size_of(ReadAnswer(text="x" * 20_000, result={"content": lines})) == 20_000
    assert size_of(ReadAnswer(text=lines, result={})) == len(lines)


def test_an_answer_in_any_language_is_kept_up_to_the_same_size() -> None:
    for text in ("\u0434" * 120_000, "\n" * 240_000, "a" * 240_000):
        answer = ToolAnswer(content=({"type": "text", "text": text},))
        assert kept_of(answer, {}) is not None
    answer = ToolAnswer(content=({"type": "text", "text": "\u0434" * 130_000},))
    assert kept_of(answer, {}) is None
