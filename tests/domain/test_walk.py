"""The machine and the decisions on it, walked exhaustively: every state and every move checked, and no dead end.

The walk over events takes them in any order, so it shows what the machine refuses. The walk over decisions takes what
they make of each observation, so it shows what the log can hold, and whether everything comes to rest.
"""

from __future__ import annotations

import pytest
from tests.domain import alphabet as a
from tests.domain.checks import check_edge, check_state
from tests.domain.liveness import after_crash, dead_ends, live
from tests.domain.walk import Walk, explore

from saga_mcp.domain.attention import VERBS
from saga_mcp.domain.values import ItemKind, OnError, OnUndoFailure

EVENTS = [
    a.Alphabet(name="one step without probe", steps=1, plans=(a.PLAIN,), bindings=((a.CALL,), None), reverted=True),
    a.Alphabet(
        name="one step, all that is rare",
        steps=1,
        plans=(a.PYTHON,),
        bindings=((a.ONCE,), None),
        rare=True,
        savepoints=True,
    ),
    a.Alphabet(name="two undo parts, one for a person", steps=1, plans=(a.PROBABLE,), bindings=((a.CALL, a.MANUAL),)),
    a.Alphabet(
        name="no undo holds, or it is left", steps=1, plans=(a.PYTHON,), bindings=((), (a.LEAVE,)), approvals=True
    ),
    a.Alphabet(name="pivots and retriable steps", steps=2, plans=(a.PIVOT, a.AGAIN), bindings=((),)),
    a.Alphabet(name="alerts kept back", steps=1, plans=(a.PLAIN,), bindings=((a.CALL,),), alerts=True),
    a.Alphabet(name="of a machine", steps=1, plans=(a.HOSTED,), bindings=((a.PROBED, a.MANUAL), None), hosts=True),
    a.Alphabet(
        name="of a machine, to be repeated", steps=2, plans=(a.PIVOT, a.HOSTED_AGAIN), bindings=((),), hosts=True
    ),
    a.Alphabet(
        name="a guard looks",
        steps=1,
        plans=(a.GUARDED,),
        bindings=((a.ONCE, a.MANUAL), None),
        parked=(ItemKind.GUARD_CONFLICT,),
    ),
    a.Alphabet(name="a revert", steps=2, plans=(a.PLAIN,), bindings=((a.CALL,), None), reverts=True),
]
"""Together: every event, every kind, with and without probe, idempotent and blind undo."""
MANY_EVENTS = [
    a.Alphabet(name="two steps, halt", steps=2, plans=(a.PLAIN,), bindings=((a.ONCE,),)),
    a.Alphabet(
        name="undos that a call registers",
        steps=1,
        plans=(a.PROBABLE,),
        bindings=((a.CALL, a.MANUAL), ()),
        rare=True,
        registered=True,
        parked=(ItemKind.DEAD_LETTER, ItemKind.GUARD_CONFLICT, ItemKind.CANNOT_BUILD, ItemKind.UNDO_IN_DOUBT),
    ),
    a.Alphabet(name="pivots, all that is rare", steps=2, plans=(a.PIVOT, a.AGAIN), bindings=((),), rare=True),
]
DECISIONS = [
    a.Alphabet(
        name="undo built only with a result", steps=1, plans=(a.PLAIN,), bindings=((a.ONCE,), None), reverted=True
    ),
    a.Alphabet(name="undone blindly, all that is rare", steps=1, plans=(a.PYTHON,), bindings=((a.ONCE,),), rare=True),
    a.Alphabet(
        name="undos for a person, or none",
        steps=1,
        plans=(a.PROBABLE,),
        bindings=((a.PROBED, a.MANUAL), ()),
        savepoints=True,
    ),
    a.Alphabet(name="pivot and retriable step", steps=2, plans=(a.PIVOT, a.AGAIN), bindings=((),)),
    a.Alphabet(name="a guard looks", steps=1, plans=(a.GUARDED,), bindings=((a.PROBED, a.MANUAL), None), rare=True),
    a.Alphabet(name="alerts kept back", steps=1, plans=(a.PLAIN,), bindings=((a.CALL,),), alerts=True),
    a.Alphabet(name="of a machine", steps=1, plans=(a.HOSTED,), bindings=((a.PROBED,), (a.CALL,)), hosts=True),
    a.Alphabet(
        name="of a machine, to be repeated", steps=2, plans=(a.PIVOT, a.HOSTED_AGAIN), bindings=((),), hosts=True
    ),
    a.Alphabet(
        name="probed pivot and retriable step, held",
        steps=2,
        plans=(a.PROBABLE_PIVOT, a.LOOKED_UP),
        bindings=((),),
        on_error=OnError.HOLD,
        rare=True,
    ),
    a.Alphabet(name="a revert", steps=2, plans=(a.GUARDED,), bindings=((a.ONCE,), None), reverts=True, late=False),
]
MANY_DECISIONS = [
    a.Alphabet(name="three steps, one a pivot", steps=3, plans=(a.PIVOT, a.AGAIN), bindings=((),)),
    a.Alphabet(name="two steps, halt", steps=2, plans=(a.PLAIN,), bindings=((a.CALL,),)),
    a.Alphabet(
        name="two steps, continue",
        steps=2,
        plans=(a.PLAIN,),
        bindings=((a.ONCE,),),
        on_undo_failure=OnUndoFailure.CONTINUE,
        late=False,
    ),
    a.Alphabet(
        name="pivot after a step, held, save-points",
        steps=2,
        plans=(a.PLAIN, a.PIVOT),
        bindings=((a.CALL,),),
        on_error=OnError.HOLD,
        savepoints=True,
        late=False,
    ),
    a.Alphabet(name="two guarded steps", steps=2, plans=(a.GUARDED,), bindings=((a.CALL,),), late=False),
    a.Alphabet(name="two probed steps", steps=2, plans=(a.PROBABLE,), bindings=((a.PROBED,),), late=False),
]
UNTRIED = {
    f"{ItemKind.TARGET_CHANGED}: {verb}"
    for verb in VERBS[ItemKind.TARGET_CHANGED]  # the machine treats it as a dead letter
}.union(
    (f"{kind}: {verb}" for kind in (ItemKind.QUARANTINE, ItemKind.APPROVAL, ItemKind.IDLE) for verb in VERBS[kind]),
    (f"{ItemKind.OUTBOX_PARKED}: export",),
)
"""What no decision leads to: a damaged log is not ours, approvals and idling are events of the engine's own, and an
export decides nothing."""


def walked(alphabet: a.Alphabet) -> Walk:
    """Walk over events and check everything."""
    walk = Walk(alphabet)
    seen = 0
    for edge in explore(alphabet, walk):
        check_edge(walk, edge)
        if len(walk.came_from) > seen:
            seen = len(walk.came_from)
            check_state(walk, edge.after)
    return walk


def lived(alphabet: a.Alphabet) -> set[str]:
    """Walk over decisions, check everything, and return the verbs that were tried."""
    life = live(alphabet)
    assert life.wrong == []
    for saga in dead_ends(life):
        life.blame("a dead end", saga)
    for saga in life.came_from:
        trouble = after_crash(alphabet, saga) if saga.opened else None
        if trouble is not None:
            life.blame(trouble, saga)
    assert life.wrong == []
    return life.verbs


@pytest.mark.parametrize("alphabet", EVENTS, ids=lambda alphabet: alphabet.name)
def test_no_order_of_events_breaks_an_invariant(alphabet: a.Alphabet) -> None:
    assert walked(alphabet).wrong == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("alphabet", MANY_EVENTS, ids=lambda alphabet: alphabet.name)
def test_no_order_of_many_events_breaks_an_invariant(alphabet: a.Alphabet) -> None:
    assert walked(alphabet).wrong == []


def test_every_decision_is_legal_every_verb_leads_on_and_everything_comes_to_rest_after_a_crash_anywhere() -> None:
    tried = set[str]().union(*(lived(alphabet) for alphabet in DECISIONS))
    assert tried == {f"{kind}: {verb}" for kind, verbs in VERBS.items() for verb in verbs} - UNTRIED


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("alphabet", MANY_DECISIONS, ids=lambda alphabet: alphabet.name)
def test_overlapping_steps_come_to_rest_after_a_crash_anywhere(alphabet: a.Alphabet) -> None:
    assert lived(alphabet)
