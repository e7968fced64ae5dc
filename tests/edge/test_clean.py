"""Whatever a tool answers, a reply can be made of it, and what JSON can hold stays as it is."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from saga_mcp.domain.values import JsonValue
from saga_mcp.edge.clean import big_integers, clean, escape, present

texts = st.text(st.characters(), max_size=20)
values: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=20,
)


@given(values)
def test_a_cleaned_value_is_strict_json_in_valid_unicode(value: JsonValue) -> None:
    cleaned = clean(value)
    assert json.loads(json.dumps(cleaned, allow_nan=False, ensure_ascii=False).encode()) == cleaned
    assert clean(cleaned) == cleaned


@given(values)
def test_what_json_can_hold_is_not_touched(value: JsonValue) -> None:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return
    assert clean(value) == value


@given(st.text(st.characters()))
def test_an_escaped_text_is_one_line_without_hidden_characters(text: str) -> None:
    assert len(escape(text).splitlines()) <= 1
    assert "\x1b" not in escape(text)
    assert escape(escape(text)) == escape(text)


@given(st.integers())
def test_exactly_the_integers_a_double_may_round_are_named(number: int) -> None:
    named = big_integers({"a": [number, True]})
    assert named == ({"/a/0": str(number)} if abs(number) > 2**53 else {})


def test_zero_is_present_and_nothing_is_not() -> None:
    assert present({"a": 0, "b": False, "c": "", "d": [], "e": None, "f": True}) == {"a": 0, "f": True}
