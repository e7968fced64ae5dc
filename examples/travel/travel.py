"""A travel desk: flights, hotel rooms and a card, each booking paired with what undoes it.

The outside world is a real SQLite file (`TRAVEL_WORLD`, default `world.db` beside this file), so whatever an agent
books here can be looked at with any SQLite client, and so can whatever an abort took back.

Each effect is stored under the call's idempotency key (`call.key`), which the table keeps unique. So a repeated call
finds the first one's row instead of booking twice; an undo finds the row by the same key, and does nothing where there
is none; and a probe can tell whether a call that gave no answer has landed.

`TRAVEL_SLOW_S` makes every booking sleep that many seconds *after* its effect is written: time to kill the server in
the middle of a call.
"""
# A file loaded by its path is in no package (INP001), and `call` is not the agent's to fill in (D417).
# ruff: noqa: INP001, D417

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from saga_tools import Call, NeedsPerson, NoEffect, ToolRegistry, Undo

TABLES = """
CREATE TABLE IF NOT EXISTS flight (
    number TEXT PRIMARY KEY, origin TEXT, destination TEXT, day TEXT, departs TEXT, cents INTEGER, seats INTEGER
);
CREATE TABLE IF NOT EXISTS hotel (name TEXT PRIMARY KEY, city TEXT, cents_a_night INTEGER, rooms INTEGER);
CREATE TABLE IF NOT EXISTS card (number TEXT PRIMARY KEY, holder TEXT, limit_cents INTEGER);
CREATE TABLE IF NOT EXISTS booking (
    key TEXT PRIMARY KEY, flight TEXT, passenger TEXT, cents INTEGER, checked_in INTEGER DEFAULT 0
);
CREATE TABLE IF NOT EXISTS reservation (
    key TEXT PRIMARY KEY, hotel TEXT, guest TEXT, arrives TEXT, nights INTEGER, cents INTEGER
);
CREATE TABLE IF NOT EXISTS charge (
    key TEXT PRIMARY KEY, card TEXT, cents INTEGER, purpose TEXT, refunded INTEGER DEFAULT 0
);
INSERT OR IGNORE INTO flight VALUES
    ('TP531', 'BER', 'LIS', '2027-03-12', '06:40', 18900, 3),
    ('TP535', 'BER', 'LIS', '2027-03-12', '17:25', 24900, 9),
    ('LH1166', 'FRA', 'LIS', '2027-03-12', '09:15', 21400, 1),
    ('TP532', 'LIS', 'BER', '2027-03-15', '11:05', 17900, 5),
    ('TP538', 'LIS', 'BER', '2027-03-15', '20:50', 14900, 0);
INSERT OR IGNORE INTO hotel VALUES
    ('Casa do Rio', 'Lisbon', 14200, 2),
    ('Pensao Alfama', 'Lisbon', 6900, 1),
    ('Hotel Spree', 'Berlin', 11800, 4);
INSERT OR IGNORE INTO card VALUES
    ('4000-0000-0000-0077', 'Ada Lovelace', 200000),
    ('4000-0000-0000-0341', 'Charles Babbage', 30000),
    ('4000-0000-0000-0002', 'Blocked Card', 0);
"""


class Flight(BaseModel):
    """A flight on offer."""

    number: str
    origin: str
    destination: str
    day: date
    departs: str = Field(description="Local time, HH:MM")
    cents: int = Field(description="Price of a seat, in cents")
    seats: int = Field(description="Seats still free")


class Hotel(BaseModel):
    """A hotel on offer."""

    name: str
    city: str
    cents_a_night: int = Field(description="Price of a room for one night, in cents")
    rooms: int = Field(description="Rooms still free")


class Booking(BaseModel):
    """A booked seat."""

    reference: str
    flight: str
    passenger: str
    cents: int


@dataclass
class Reservation:
    """A reserved room."""

    reference: str
    hotel: str
    nights: int
    cents: int


@dataclass
class Charge:
    """A card payment."""

    reference: str
    cents: int
    status: Literal["paid", "refunded"] = "paid"


def world_file() -> Path:
    """Return where the outside world is."""
    return Path(os.environ.get("TRAVEL_WORLD") or Path(__file__).with_name("world.db"))


@contextmanager
def world() -> Generator[sqlite3.Connection]:
    """Open the outside world for one transaction: all of it happens, or, on an exception, nothing."""
    with closing(sqlite3.connect(world_file(), timeout=10, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


@asynccontextmanager
async def create_world() -> AsyncGenerator[None]:
    """Create the world on the first start."""
    with closing(sqlite3.connect(world_file(), timeout=10)) as connection:
        connection.executescript(TABLES)
    yield


def slow_s() -> float:
    """Return how long a booking sleeps after its effect."""
    return float(os.environ.get("TRAVEL_SLOW_S") or 0)


registry = ToolRegistry(lifespan=create_world)


@registry.tool(kind="read_only")
def search_flights(origin: str, destination: str, day: date | None = None) -> list[Flight]:
    """Find flights with their prices and free seats.

    Args:
        origin: Airport code, such as BER.
        destination: Airport code, such as LIS.
        day: Day of departure; any day without it.
    """
    query = "SELECT * FROM flight WHERE origin = ? AND destination = ? AND (? IS NULL OR day = ?) ORDER BY day, departs"
    wanted = day and day.isoformat()
    with world() as now:
        rows = now.execute(query, (origin.upper(), destination.upper(), wanted, wanted)).fetchall()
    return [Flight.model_validate(dict(row)) for row in rows]


@registry.tool(kind="read_only")
def search_hotels(city: str) -> list[Hotel]:
    """Find hotels with their prices and free rooms.

    Args:
        city: Name in English, such as Lisbon.
    """
    with world() as now:
        rows = now.execute("SELECT * FROM hotel WHERE city = ? COLLATE NOCASE ORDER BY name", (city,)).fetchall()
    return [Hotel.model_validate(dict(row)) for row in rows]


@registry.tool(idempotent=True)
def book_flight(flight: str, passenger: str, call: Call) -> Booking:
    """Book one seat on a flight.

    Args:
        flight: Flight number, such as TP531.
        passenger: Full name.
    """
    with world() as now:
        booked = now.execute("SELECT cents FROM booking WHERE key = ?", (call.key,)).fetchone()
        if booked is None:
            sold = now.execute("UPDATE flight SET seats = seats - 1 WHERE number = ? AND seats > 0", (flight,))
            if sold.rowcount == 0:
                raise NoEffect(f"no seat is left on {flight}, or there is no such flight: use search_flights")
            now.execute(
                "INSERT INTO booking SELECT ?, number, ?, cents, 0 FROM flight WHERE number = ?",
                (call.key, passenger, flight),
            )
            booked = now.execute("SELECT cents FROM booking WHERE key = ?", (call.key,)).fetchone()
    time.sleep(slow_s())
    return Booking(reference=call.key, flight=flight, passenger=passenger, cents=booked["cents"])


@registry.undoes(book_flight)
def cancel_flight(flight: str, undo: Undo[Booking]) -> None:
    """Cancel the booking, if there is one, and give the seat back."""
    with world() as now:
        booked = now.execute("SELECT checked_in FROM booking WHERE key = ?", (undo.call_key,)).fetchone()
        if booked is None:
            return
        if booked["checked_in"]:
            raise NeedsPerson(f"The passenger has checked in on {flight}: ask the airline to cancel.", urgency="high")
        now.execute("DELETE FROM booking WHERE key = ?", (undo.call_key,))
        now.execute("UPDATE flight SET seats = seats + 1 WHERE number = ?", (flight,))


@registry.tool(idempotent=True)
def reserve_hotel(
    hotel: str, guest: str, arrives: date, nights: Annotated[int, Field(ge=1, le=30)], call: Call
) -> Reservation:
    """Reserve a room.

    Args:
        hotel: Name as search_hotels says it.
        guest: Full name.
        arrives: First night.
        nights: How many nights.
    """
    with world() as now:
        reserved = now.execute("SELECT nights, cents FROM reservation WHERE key = ?", (call.key,)).fetchone()
        if reserved is None:
            taken = now.execute("UPDATE hotel SET rooms = rooms - 1 WHERE name = ? AND rooms > 0", (hotel,))
            if taken.rowcount == 0:
                raise NoEffect(f"{hotel} has no free room, or there is no such hotel: use search_hotels")
            now.execute(
                "INSERT INTO reservation SELECT ?, name, ?, ?, ?, cents_a_night * ? FROM hotel WHERE name = ?",
                (call.key, guest, arrives.isoformat(), nights, nights, hotel),
            )
            reserved = now.execute("SELECT nights, cents FROM reservation WHERE key = ?", (call.key,)).fetchone()
    time.sleep(slow_s())
    return Reservation(reference=call.key, hotel=hotel, nights=reserved["nights"], cents=reserved["cents"])


@registry.undoes(reserve_hotel)
def release_hotel(hotel: str, undo: Undo[Reservation]) -> None:
    """Give the room back, if one is reserved."""
    with world() as now:
        if now.execute("DELETE FROM reservation WHERE key = ?", (undo.call_key,)).rowcount:
            now.execute("UPDATE hotel SET rooms = rooms + 1 WHERE name = ?", (hotel,))


@registry.tool
async def charge_card(card: str, cents: Annotated[int, Field(ge=1)], purpose: str, call: Call) -> Charge:
    """Pay with a card.

    Args:
        card: Card number, such as 4000-0000-0000-0077.
        cents: Amount in cents.
        purpose: What the statement says.
    """
    with world() as now:
        if now.execute("SELECT 1 FROM charge WHERE key = ?", (call.key,)).fetchone() is None:
            query = "SELECT coalesce(sum(cents), 0) FROM charge WHERE card = ? AND NOT refunded"
            spent = now.execute(query, (card,)).fetchone()[0]
            known = now.execute("SELECT limit_cents FROM card WHERE number = ?", (card,)).fetchone()
            if known is None or spent + cents > known["limit_cents"]:
                raise NoEffect("the card was declined: nothing was paid")
            now.execute(
                "INSERT INTO charge (key, card, cents, purpose) VALUES (?, ?, ?, ?)", (call.key, card, cents, purpose)
            )
    await asyncio.sleep(slow_s())
    return Charge(reference=call.key, cents=cents)


@registry.undoes(charge_card)
def refund_card(undo: Undo[Charge]) -> None:
    """Refund the payment, if there was one; the statement keeps both."""
    with world() as now:
        now.execute("UPDATE charge SET refunded = 1 WHERE key = ?", (undo.call_key,))


@registry.probes(charge_card)
def find_charge(call: Call) -> Charge | None:
    """Tell whether a payment that gave no answer was made."""
    with world() as now:
        paid = now.execute("SELECT cents, refunded FROM charge WHERE key = ?", (call.key,)).fetchone()
    return paid and Charge(call.key, paid["cents"], "refunded" if paid["refunded"] else "paid")
