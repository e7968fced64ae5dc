"""What stands in the place of a secret, wherever it is repeated (SEMANTICS.md S11.4)."""

from __future__ import annotations

import json

import pytest

from saga_mcp.domain.hiding import SHOWN, Hiding
from saga_mcp.domain.values import JsonValue


@pytest.mark.parametrize(
    ("secret", "shown", "left"),
    [
        ("tok_1", "card tok_1 declined", f"card {SHOWN} declined"),
        ("tok_1", {"tok_1": ["xtok_1x", 7, None]}, {SHOWN: [f"x{SHOWN}x", 7, None]}),
        ('a "b"', json.dumps({"card": 'a "b"'}), json.dumps({"card": SHOWN})),
        ("caf\u00e9", json.dumps("caf\u00e9"), json.dumps(SHOWN)),
        ("pin", "spin the pin", f"spin the {SHOWN}"),
        (4711, [4711, 4711.0, 47110, "4711", "47110"], [SHOWN, SHOWN, 47110, SHOWN, "47110"]),
        ({"number": "tok_1", "cvc": [123]}, "tok_1/123", f"{SHOWN}/{SHOWN}"),
        (True, [True, 1, "True"], [True, 1, "True"]),
        ("", "nothing", "nothing"),
    ],
)
def test_a_secret_is_hidden_wherever_it_is_repeated(secret: JsonValue, shown: JsonValue, left: JsonValue) -> None:
    assert Hiding([secret]).json(shown) == left
