"""The machine, walked exhaustively: every order of events of each alphabet, every state and every move checked."""

from __future__ import annotations

import pytest
from tests.domain import alphabet as a
from tests.domain.checks import check_edge, check_state
from tests.domain.walk import Walk, explore

EVERYDAY = [
    a.Alphabet(name="one step without probe", steps=1, plans=(a.PLAIN,), bindings=((a.CALL,), None)),
    a.Alphabet(
        name="one step, all that is rare",
        steps=1,
        plans=(a.PYTHON,),
        bindings=((a.ONCE,), None),
        rare=True,
        savepoints=True,
    ),
    a.Alphabet(name="two undo parts", steps=1, plans=(a.PROBABLE,), bindings=((a.CALL, a.MANUAL),)),
    a.Alphabet(name="pivots and retriable steps", steps=2, plans=(a.PIVOT, a.AGAIN), bindings=((),)),
]
"""Together: every event, every kind, with and without probe, idempotent and blind undo."""


def checked(alphabet: a.Alphabet) -> Walk:
    """Walk and check everything."""
    walk = Walk(alphabet)
    seen = 0
    for edge in explore(alphabet, walk):
        check_edge(walk, edge)
        if len(walk.came_from) > seen:
            seen = len(walk.came_from)
            check_state(walk, edge.after)
    return walk


@pytest.mark.parametrize("alphabet", EVERYDAY, ids=lambda alphabet: alphabet.name)
def test_no_order_of_events_breaks_an_invariant(alphabet: a.Alphabet) -> None:
    assert checked(alphabet).wrong == []
