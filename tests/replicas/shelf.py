"""A shelf in LEDGER's world: what stands in a slot is captured before it is changed, and put back by the undo."""

from __future__ import annotations

from tests.world.ledger import QUICK, TIMEOUT_S, Act, Mode, lines

from saga_tools import Call, ToolRegistry, Undo

registry = ToolRegistry()


@registry.tool(guard="unchanged", timeout_s=TIMEOUT_S)
async def put(slot: str, text: str, call: Call, mode: Mode = "ok") -> None:
    """Put a text into a slot, in place of what stands there."""
    await Act("put", mode, call.key, {"slot": slot, "text": text}).run()


@registry.captures(put)
def there(slot: str) -> str | None:
    puts = [line for line in lines() if line["event"] == "did" and line["tool"] in {"put", "put_back"}]
    return next((line["args"]["text"] for line in reversed(puts) if line["args"]["slot"] == slot), None)


@registry.undoes(put, retry=QUICK, timeout_s=TIMEOUT_S)
async def put_back(slot: str, undo: Undo[None]) -> None:
    await Act("put_back", "ok", undo.call_key, {"slot": slot, "text": undo.capture}, undo.key).run()
