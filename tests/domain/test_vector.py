"""`Vector` is a tuple in every respect but one: what a change costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_mcp.domain.vector import CHUNK, Vector

LENGTHS = st.sampled_from([0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7])


def near(length: int) -> st.SearchStrategy[int]:
    """Places in a vector of this length, and some beyond its ends, also in its last, unfilled chunk."""
    return st.one_of(st.integers(0, length), st.integers(length, length + CHUNK), st.integers(-length - CHUNK, -1))


@given(LENGTHS)
def test_it_holds_what_it_was_made_of_in_order(length: int) -> None:
    items = tuple(range(length))
    vector = Vector[int].of(items)
    assert (tuple(vector), tuple(reversed(vector)), len(vector)) == (items, items[::-1], length)
    assert [vector[place] for place in range(-length, length)] == [items[place] for place in range(-length, length)]
    assert all(item in vector for item in items)


@given(LENGTHS, st.integers(-300, 300), st.integers(-300, 300))
def test_a_slice_of_it_is_the_slice_of_a_tuple(length: int, start: int, stop: int) -> None:
    assert Vector[int].of(range(length))[start:stop] == tuple(range(length))[start:stop]


@given(LENGTHS, st.data())
def test_a_change_is_the_one_a_tuple_would_have_and_leaves_the_old_one_alone(length: int, data: st.DataObject) -> None:
    items = tuple(range(length))
    vector = Vector[int].of(items)
    assert vector.appended(-1) == Vector[int].of((*items, -1))
    kept = data.draw(near(length))
    if 0 <= kept <= length:
        assert vector.shortened(kept) == Vector[int].of(items[:kept])
    else:
        with pytest.raises(ValueError, match=f"{kept} of {length}"):
            vector.shortened(kept)
    place = data.draw(near(length))
    if 0 <= place < length:
        assert vector.replaced(place, -1) == Vector[int].of((*items[:place], -1, *items[place + 1 :]))
    else:
        with pytest.raises(IndexError):
            vector.replaced(place, -1)
    assert tuple(vector) == items


@given(LENGTHS)
def test_equal_items_make_equal_vectors_however_they_came_about(length: int) -> None:
    grown = Vector[int]()
    for item in range(length + 1):
        grown = grown.appended(item)
    made = Vector[int].of(range(length))
    assert (grown.shortened(length), hash(grown.shortened(length))) == (made, hash(made))
    assert grown != made


@pytest.mark.parametrize("index", [CHUNK + 1, -CHUNK - 2, 10**6])
def test_there_is_nothing_beyond_its_end(index: int) -> None:
    with pytest.raises(IndexError):
        Vector[int].of(range(CHUNK + 1))[index]


def test_a_change_copies_one_chunk_and_shares_the_others() -> None:
    vector = Vector[int].of(range(10 * CHUNK))
    changed = vector.replaced(5 * CHUNK, -1)
    assert [one is other for one, other in zip(vector.chunks, changed.chunks, strict=True)] == [True] * 5 + [False] + [
        True
    ] * 4
