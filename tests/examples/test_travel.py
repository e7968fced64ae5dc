"""The travel example: each effect is in the outside world once, and its undo takes it out again."""

import importlib.util
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from saga_mcp.testing import CallFailed, Harness
from saga_tools import Call, NeedsPerson, NoEffect, Undo
from saga_tools.server import registered

EXAMPLE = Path(__file__).parents[2] / "examples" / "travel" / "travel.py"
ADA, BABBAGE = "4000-0000-0000-0077", "4000-0000-0000-0341"


@dataclass
class World:
    file: Path
    travel: Any

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(query).fetchall()

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(statement)


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("travel_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[World]:
    file = tmp_path / "world.db"
    monkeypatch.setenv("TRAVEL_WORLD", str(file))
    monkeypatch.setattr(sys, "path", list(sys.path))
    travel: Any = load()
    async with travel.registry.lifespan():
        yield World(file, travel)


def undo_of(call: Call) -> Undo[Any]:
    return Undo[Any].for_test(call_key=call.key)


async def test_every_tool_of_the_example_is_sound(world: World) -> None:
    assert world.travel.registry.check() == []
    assert list(registered(world.travel.registry).tools) == [
        "search_flights",
        "search_hotels",
        "book_flight",
        "reserve_hotel",
        "charge_card",
    ]


async def test_a_repeated_call_books_nothing_twice(world: World) -> None:
    call = Call.for_test(key="k1")
    arrives = date(2027, 3, 12)
    for _ in range(2):
        assert world.travel.book_flight("TP531", "Ada", call).cents == 18_900
        assert world.travel.reserve_hotel("Casa do Rio", "Ada", arrives, 3, call).cents == 3 * 14_200
        assert (await world.travel.charge_card(ADA, 61_500, "Lisbon", call)).cents == 61_500
    assert world.ask("SELECT key, flight FROM booking") == [("k1", "TP531")]
    assert world.ask("SELECT key, hotel, arrives, nights FROM reservation") == [("k1", "Casa do Rio", "2027-03-12", 3)]
    assert world.ask("SELECT key, cents, refunded FROM charge") == [("k1", 61_500, 0)]
    assert world.ask("SELECT seats FROM flight WHERE number = 'TP531'") == [(2,)]
    assert world.ask("SELECT rooms FROM hotel WHERE name = 'Casa do Rio'") == [(1,)]


async def test_each_undo_takes_its_effect_back_once_however_often_it_runs(world: World) -> None:
    before = world.ask("SELECT * FROM flight"), world.ask("SELECT * FROM hotel")
    call = Call.for_test(key="k1")
    world.travel.book_flight("TP531", "Ada", call)
    world.travel.reserve_hotel("Casa do Rio", "Ada", date(2027, 3, 12), 3, call)
    await world.travel.charge_card(ADA, 61_500, "Lisbon", call)
    for _ in range(2):
        world.travel.refund_card(undo_of(call))
        world.travel.release_hotel("Casa do Rio", undo_of(call))
        world.travel.cancel_flight("TP531", undo_of(call))
    assert (world.ask("SELECT * FROM flight"), world.ask("SELECT * FROM hotel")) == before
    assert world.ask("SELECT * FROM booking") == world.ask("SELECT * FROM reservation") == []
    assert world.ask("SELECT cents, refunded FROM charge") == [(61_500, 1)]


async def test_an_undo_of_what_never_happened_changes_nothing(world: World) -> None:
    before = world.ask("SELECT * FROM flight"), world.ask("SELECT * FROM hotel")
    absent = Call.for_test(key="never")
    world.travel.refund_card(undo_of(absent))
    world.travel.release_hotel("Casa do Rio", undo_of(absent))
    world.travel.cancel_flight("TP531", undo_of(absent))
    assert (world.ask("SELECT * FROM flight"), world.ask("SELECT * FROM hotel")) == before
    assert world.ask("SELECT * FROM charge") == []


async def test_what_is_sold_out_or_declined_has_no_effect(world: World) -> None:
    call = Call.for_test(key="k1")
    with pytest.raises(NoEffect, match="no seat is left on TP538"):
        world.travel.book_flight("TP538", "Ada", call)
    with pytest.raises(NoEffect, match="no such hotel"):
        world.travel.reserve_hotel("Ritz", "Ada", date(2027, 3, 12), 3, call)
    with pytest.raises(NoEffect, match="declined"):
        await world.travel.charge_card(BABBAGE, 30_001, "Lisbon", call)
    assert world.ask("SELECT * FROM booking") == world.ask("SELECT * FROM reservation") == []
    assert world.ask("SELECT * FROM charge") == []


async def test_a_refund_frees_the_cards_limit(world: World) -> None:
    first = Call.for_test(key="k1")
    await world.travel.charge_card(BABBAGE, 30_000, "Lisbon", first)
    world.travel.refund_card(undo_of(first))
    assert (await world.travel.charge_card(BABBAGE, 30_000, "Berlin", Call.for_test(key="k2"))).status == "paid"


async def test_the_probe_tells_whether_a_payment_was_made(world: World) -> None:
    call = Call.for_test(key="k1")
    assert world.travel.find_charge(call) is None
    paid = await world.travel.charge_card(ADA, 500, "Lisbon", call)
    assert world.travel.find_charge(call) == paid


async def test_a_checked_in_passenger_needs_a_person(world: World) -> None:
    call = Call.for_test(key="k1")
    world.travel.book_flight("TP531", "Ada", call)
    world.change("UPDATE booking SET checked_in = 1")
    with pytest.raises(NeedsPerson, match="has checked in on TP531") as asked:
        world.travel.cancel_flight("TP531", undo_of(call))
    assert asked.value.urgency == "high"
    assert len(world.ask("SELECT * FROM booking")) == 1


async def test_searches_find_what_is_on_offer(world: World) -> None:
    flights = world.travel.search_flights("ber", "LIS", date(2027, 3, 12))
    assert [(flight.number, flight.cents, flight.seats) for flight in flights] == [
        ("TP531", 18_900, 3),
        ("TP535", 24_900, 9),
    ]
    assert [hotel.name for hotel in world.travel.search_hotels("lisbon")] == ["Casa do Rio", "Pensao Alfama"]
    assert world.travel.search_flights("BER", "LIS", date(2027, 3, 13)) == []


async def test_a_declined_card_gives_the_room_and_the_seat_back(world: World) -> None:
    before = world.ask("SELECT * FROM flight"), world.ask("SELECT * FROM hotel")
    async with Harness(EXAMPLE.with_name("saga.toml")) as h:
        saga = h.saga()
        flight = await saga.call("book_flight", flight="TP531", passenger="Charles Babbage")
        room = await saga.call(
            "reserve_hotel", hotel="Casa do Rio", guest="Charles Babbage", arrives=date(2027, 3, 12), nights=3
        )
        with pytest.raises(CallFailed, match="declined"):
            await saga.call("charge_card", card=BABBAGE, cents=flight.cents + room.cents, purpose="Lisbon")
    assert (saga.state, saga.undone) == ("compensated", ["reserve_hotel", "book_flight"])
    assert (world.ask("SELECT * FROM flight"), world.ask("SELECT * FROM hotel")) == before
    assert world.ask("SELECT * FROM booking") == world.ask("SELECT * FROM reservation") == []
