"""The tools of `saga-mcp demo`: a hotel and a bank that live in a dictionary.

In the wheel, because the demonstration has to run where nothing else is. Written as a tool author would write it.
"""

from __future__ import annotations

from saga_tools import Call, NoEffect, ToolRegistry, Undo

world: dict[str, str] = {}
"""The outside: what is booked and charged, by the key of the call that did it."""

registry = ToolRegistry()


@registry.tool
async def book_room(guest: str, nights: int, call: Call) -> str:
    """Book a hotel room."""
    world[call.key] = f"room for {guest}, {nights} nights"
    return call.key


@registry.undoes(book_room)
async def cancel_room(undo: Undo[str]) -> None:
    """Give the room back; harmless if it was never booked."""
    world.pop(undo.call_key, None)


@registry.tool
async def charge(card: str, euros: int, call: Call) -> str:
    """Charge a card."""
    if card == "expired":
        raise NoEffect("the card has expired")
    world[call.key] = f"{euros} euros from {card}"
    return call.key


@registry.undoes(charge)
async def refund(undo: Undo[str]) -> None:
    """Pay it back; harmless if it was never charged."""
    world.pop(undo.call_key, None)
