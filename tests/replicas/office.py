"""An office in LEDGER's world: what a person has to allow first, and rooms that one saga holds at a time."""

from __future__ import annotations

from typing import Any

from tests.world.ledger import QUICK, TIMEOUT_S, Act, Mode

from saga_tools import Call, ToolRegistry, Undo

registry = ToolRegistry()


@registry.tool(approval=True, timeout_s=TIMEOUT_S)
async def sign(item: str, number: int, terms: dict[str, Any], call: Call, mode: Mode = "ok") -> str:
    """Sign a contract."""
    await Act("sign", mode, call.key, {"item": item, "number": number, "terms": terms}).run()
    return item


@registry.undoes(sign, retry=QUICK, timeout_s=TIMEOUT_S, idempotent=False, safe_if_absent=False)
async def unsign(item: str, undo: Undo[str]) -> None:
    await Act("unsign", "ok", undo.call_key, {"item": item}, undo.key).run()


@registry.tool(resource="room:${args.room}", timeout_s=TIMEOUT_S)
async def lease(item: str, room: str, call: Call, mode: Mode = "ok") -> str:
    """Lease a room."""
    await Act("lease", mode, call.key, {"item": item, "room": room}).run()
    return item


@registry.undoes(lease, retry=QUICK, timeout_s=TIMEOUT_S)
async def vacate(item: str, room: str, undo: Undo[str]) -> None:
    await Act("vacate", "ok", undo.call_key, {"item": item, "room": room}, undo.key).run()
