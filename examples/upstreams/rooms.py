"""A meeting room, for the saga that also writes files and notes: a booking is a file, so that you can look at it."""

# A file loaded by its path is in no package (INP001).
# ruff: noqa: INP001

import os
from pathlib import Path

from saga_tools import Call, NoEffect, ToolRegistry, Undo

BOOKINGS = Path(os.environ["UPSTREAMS_WORLD"]) / "bookings"
ROOMS = ("Oak", "Elm")

registry = ToolRegistry()


@registry.tool(idempotent=True)
def book_room(room: str, day: str, call: Call) -> dict[str, str]:
    """Book a meeting room, Oak or Elm, for a day such as 2027-03-12."""
    if room not in ROOMS:
        raise NoEffect(f"there is no room {room}; there are {' and '.join(ROOMS)}")
    BOOKINGS.mkdir(exist_ok=True)
    booking = BOOKINGS / f"{day}-{room}"
    if booking.exists() and booking.read_text(encoding="utf-8") != call.key:
        raise NoEffect(f"{room} is taken on {day}")
    booking.write_text(call.key, encoding="utf-8")
    return {"room": room, "day": day}


@registry.undoes(book_room)
def free_room(room: str, day: str, undo: Undo[dict[str, str]]) -> None:
    """Free a room, if this very booking holds it."""
    booking = BOOKINGS / f"{day}-{room}"
    if booking.exists() and booking.read_text(encoding="utf-8") == undo.call_key:
        booking.unlink()
