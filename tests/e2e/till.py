"""A till whose calls take what nobody may read: what it did is in the file TILL, and it repeats in its answers and
errors what it was given.
"""

import json
import os
from pathlib import Path
from typing import Any

from saga_tools import CannotUndo, NoEffect, Retry, ToolRegistry, Undo

registry = ToolRegistry()


def done(what: str, *arguments: object) -> None:
    with Path(os.environ["TILL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([what, *arguments]) + "\n")


@registry.tool(secret=["card", "pin"])
def pay(cents: int, card: str, pin: int = 0) -> dict[str, Any]:
    """Pay; nobody needs the card once more to pay back."""
    done("pay", cents, card, pin)
    if cents < 0:
        raise NoEffect(f"card {card} with {pin} was declined")
    return {"id": f"p{cents}", "said": f"charged {card}"}


@registry.undoes(pay)
def pay_back(cents: int, undo: Undo[dict[str, Any]]) -> None:
    assert undo.result is not None
    done("pay_back", cents, undo.result["id"], sorted(undo.args))


@registry.tool(secret=["card"])
def block(cents: int, card: str) -> dict[str, str]:
    """Block money on a card."""
    done("block", cents, card)
    return {"said": f"blocked on {card}"}


@registry.undoes(block)
def unblock(card: str, cents: int) -> None:
    done("unblock", card)
    if cents > 1000:
        message = f"the bank knows no card {card}"
        raise CannotUndo(message)


@registry.tool(secret=["code"], approval=True, kind="pivot")
def open_door(code: str) -> None:
    """Open the door, which a person has to allow."""
    done("open_door", code)


@registry.tool(secret=["code"], kind="retriable", idempotent=True, retry=Retry(attempts=3))
def close_door(code: str) -> None:
    """Close the door, in the end; where it says so, its process dies with the first call."""
    done("close_door", code)
    dies = Path(os.environ["TILL"]).with_suffix(".dies")
    if dies.exists():
        dies.unlink()
        os._exit(1)


@registry.tool(kind="pivot")
def stamp() -> None:
    """After it there is no way back."""


@registry.tool(kind="read_only", secret=["code"])
def look(code: str) -> str:
    """Look at what the code is for."""
    return f"{len(code)} characters"
