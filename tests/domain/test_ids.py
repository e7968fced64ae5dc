"""Names: what a mistyped id is caught by, and what keys depend on (S1.4, S6.3)."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from saga_mcp.domain.ids import ENTROPY_BYTES, normal_saga_id, saga_id, step_key, undo_key

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
IDS = st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES).map(saga_id)
PLACES = st.integers(3, 29)


@given(IDS)
def test_an_id_is_26_characters_and_a_check_character(name: str) -> None:
    assert re.fullmatch(r"sg-[0-9a-hjkmnp-tv-z]{27}", name)
    assert normal_saga_id(name) == name


@given(st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES), st.integers(0, 127))
def test_each_of_the_128_bits_makes_another_id(entropy: bytes, bit: int) -> None:
    other = (int.from_bytes(entropy, "big") ^ (1 << bit)).to_bytes(ENTROPY_BYTES, "big")
    assert saga_id(other) != saga_id(entropy)


@pytest.mark.parametrize("entropy", [b"", b"short", bytes(ENTROPY_BYTES + 1)])
def test_an_id_of_less_or_more_than_128_bits_is_refused(entropy: bytes) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        saga_id(entropy)


@given(IDS, PLACES, st.sampled_from(ALPHABET))
def test_one_mistyped_character_is_always_caught(name: str, place: int, typed: str) -> None:
    wrong = name[:place] + typed + name[place + 1 :]
    assert normal_saga_id(wrong) == (name if wrong == name else None)


@given(IDS, PLACES, PLACES)
def test_two_swapped_characters_are_always_caught(name: str, one: int, other: int) -> None:
    letters = list(name)
    letters[one], letters[other] = letters[other], letters[one]
    wrong = "".join(letters)
    assert normal_saga_id(wrong) == (name if wrong == name else None)


@given(IDS)
def test_case_and_surrounding_space_do_not_matter(name: str) -> None:
    assert normal_saga_id(f"  {name.upper()}\n") == name


@pytest.mark.parametrize(
    "text", ["", "sg-", "x", "sg", "saga-1", "sg-" + "u" * 27, "sg-" + "0" * 26, "sg-" + "0" * 28, "0" * 30, "sg-é"]
)
def test_what_is_no_id_is_told_from_an_id(text: str) -> None:
    assert normal_saga_id(text) is None


def test_a_space_inside_an_id_is_not_forgiven() -> None:
    name = saga_id(bytes(range(16)))
    assert normal_saga_id(name[:10] + " " + name[10:]) is None


def test_a_step_has_one_key_for_all_its_attempts_and_no_other_step_has_it() -> None:
    keys = {
        step_key(realm, saga, number, nonce)
        for realm in "rs"
        for saga in "ab"
        for number in (1, 2, 11)
        for nonce in ("", "00ff", "ff00")
    }
    assert len(keys) == 2 * 2 * 3 * 3
    assert step_key("r", "a", 1, "00ff") == step_key("r", "a", 1, "00ff")
    assert all(re.fullmatch("[0-9a-hjkmnp-tv-z]{26}", key) for key in keys)


def test_the_undo_of_a_late_effect_has_a_key_of_its_own() -> None:
    """An upstream's idempotency cache would swallow the second undo otherwise (S6.3)."""
    assert undo_key("k", "1", 0) == "k.u1.g0"
    assert len({undo_key("k", part, generation) for part in ("1", "r1") for generation in (0, 1)}) == 4
