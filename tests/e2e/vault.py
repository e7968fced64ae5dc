"""A vault whose every value is a secret of somebody's: what it did is in the file VAULT, one JSON list a line."""

import json
import os
from pathlib import Path

from saga_tools import Call, NoEffect, ToolRegistry, Undo

registry = ToolRegistry()


def done(what: str, *arguments: object) -> None:
    with Path(os.environ["VAULT"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([what, *arguments]) + "\n")


@registry.tool(resource="box:${args.box}", secret=["pin"])
async def put(box: str, what: str, pin: str, call: Call) -> dict[str, str]:
    """Put something into a box, which is held until the saga is over."""
    await call.on_undo(tell, box=box)
    done("put", box, what, pin)
    return {"receipt": f"receipt for {what}"}


@registry.captures(put)
async def inside(box: str) -> str:
    return f"before {box}"


@registry.undoes(put, needs_result=True)
async def take(box: str, pin: str, undo: Undo[dict[str, str]]) -> None:
    assert undo.result is not None
    done("take", box, undo.result["receipt"], undo.capture, pin)


@registry.part
async def tell(box: str) -> None:
    done("tell", box)


@registry.tool
async def turn(key: str) -> None:
    """Turn a key, which does not fit."""
    raise NoEffect(f"the key {key} does not fit")


@registry.undoes(turn)
async def turn_back(key: str) -> None:
    """Turn it back."""
