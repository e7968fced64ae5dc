"""A rollback that says it is complete is complete; one that is stuck says where, and can be finished."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from tests.e2e.product import Product
from tests.world.server import eventually

CONTINUE = 'on_undo_failure = "continue"'

SHELF = '''
"""Prices and seats, each change one line of a file."""

import os
from pathlib import Path
from typing import Any

from saga_tools import NoEffect, Retry, ToolRegistry, Undo

registry = ToolRegistry()
JOURNAL = Path(os.environ["LEDGER"]).with_suffix(".shelf")
ONCE = Retry(attempts=2, first_delay_s=0, max_delay_s=0)


def note(what):
    with JOURNAL.open("a") as file:
        file.write(what + "\\n")


def price():
    lines = JOURNAL.read_text().splitlines() if JOURNAL.exists() else []
    prices = [int(line.removeprefix("price ")) for line in lines if line.startswith("price ")]
    return prices[-1] if prices else 9


@registry.tool
async def set_price(price_now: int) -> dict[str, int]:
    """Set the price, and say what it was."""
    old = price()
    note(f"price {price_now}")
    return {"old": old}


@registry.undoes(set_price)
async def set_price_back(undo: Undo[dict[str, int]]) -> None:
    assert undo.result is not None
    note(f"price {undo.result['old']}")


@registry.tool
async def seat(SEAT: str) -> str:
    """Take a seat."""
    note(f"take {SEAT}")
    return SEAT


@registry.undoes(seat, retry=ONCE)
async def give_back(SEAT: str) -> None:
    note(f"give {SEAT}")


@registry.tool
async def open_ticket(name: str) -> str:
    """Open a ticket, which somebody closes meanwhile."""
    note(f"open {name}")
    return name


@registry.undoes(open_ticket, retry=ONCE)
async def close_ticket(name: str) -> None:
    note(f"close {name}")
    raise NoEffect("not found")


@registry.tool
async def open_case(name: str) -> str:
    """Open a case, which somebody closes meanwhile."""
    note(f"open {name}")
    return name


@registry.undoes(open_case, retry=ONCE)
async def close_case(name: str) -> None:
    """Not found is what is wanted: the author of the pair says so by returning."""
    note(f"close {name}")
'''


class Shelf:
    """The shop's file."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.tools = product.folder / "shelf.py"
        self.tools.write_text(SHELF, encoding="utf-8")
        self.journal = product.world.file.with_suffix(".shelf")

    def configure(self, saga: str = "") -> None:
        self.product.configure(saga, '[python.shelf]\npath = "shelf.py:registry"')

    @property
    def lines(self) -> list[str]:
        return self.journal.read_text().splitlines()


@pytest.fixture
def shelf(product: Product) -> Shelf:
    shelf = Shelf(product)
    shelf.configure()
    return shelf


@pytest.mark.slow
@pytest.mark.case(52)
async def test_each_undo_gets_the_values_of_its_own_step(product: Product, shelf: Shelf) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("set_price", price_now=5, saga_id=saga_id)
        await agent.call("set_price", price_now=7, saga_id=saga_id)
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert shelf.lines == ["price 5", "price 7", "price 5", "price 9"]


@pytest.mark.slow
@pytest.mark.case(52)
async def test_an_undo_that_could_never_be_built_keeps_the_server_from_starting(product: Product) -> None:
    (product.folder / "crm.py").write_text("def create(name: str) -> int: ...\ndef delete(number: int) -> None: ...\n")
    product.configure(
        tools="""
[python.crm]
path = "crm.py"
functions = ["create", "delete"]
[tools."crm.create"]
undo = { tool = "crm.delete", args = { number = "${args.nmae}" } }
"""
    )
    code, output = await product.run("serve")
    assert code == 2
    assert 'tools."crm.create".undo.args' in output
    assert "did you mean name?" in output


@pytest.mark.slow
@pytest.mark.case(22)
async def test_a_stored_result_that_no_longer_reads_costs_one_undo_and_no_other(product: Product, shelf: Shelf) -> None:
    shelf.configure(CONTINUE)
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for name, arguments in (
            ("seat", {"SEAT": "1"}),
            ("seat", {"SEAT": "2"}),
            ("set_price", {"price_now": 5}),
            ("seat", {"SEAT": "4"}),
            ("seat", {"SEAT": "5"}),
        ):
            await agent.call(name, saga_id=saga_id, **arguments)
    _change_result(product.folder / "saga.db", saga_id, 3, {"old": "a while ago"})
    async with product.serve() as agent:
        stuck = await agent.call("saga_abort", saga_id=saga_id)
        assert (stuck.state, stuck.code) == ("needs_attention", "needs_person")
        status = await agent.status(saga_id)
        assert [(item["item"], item["kind"]) for item in status["items"]] == [(f"{saga_id}.3", "dead_letter")]
        assert "4 undone" in status["summary"]
        assert "1 open" in status["summary"]
    assert shelf.lines[5:] == ["give 5", "give 4", "give 2", "give 1"]


def _change_result(database: Path, saga_id: str, step: int, result: object) -> None:
    """What a disk, a careless migration or a person at the database may do to one stored result."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        rows = connection.execute(
            "SELECT seq, payload FROM saga_event WHERE saga_id = ? AND type = 'StepSucceeded'", (saga_id,)
        ).fetchall()
        seq, payload = rows[step - 1]
        changed = {**json.loads(payload), "result": result}
        connection.execute(
            "UPDATE saga_event SET payload = ? WHERE saga_id = ? AND seq = ?", (json.dumps(changed), saga_id, seq)
        )


@pytest.mark.slow
@pytest.mark.case(23)
async def test_an_undo_that_the_config_no_longer_has_waits_until_it_is_back(product: Product, shelf: Shelf) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("seat", SEAT="1", saga_id=saga_id)
        await agent.call("reserve", item="a", saga_id=saga_id)
    whole = shelf.tools.read_text()
    shelf.tools.write_text(_without_seats(whole))
    async with product.serve() as agent:
        stuck = await agent.call("saga_abort", saga_id=saga_id)
        assert (stuck.state, stuck.code) == ("needs_attention", "needs_person")
    assert product.world.standing == []
    assert shelf.lines == ["take 1"]
    shelf.tools.write_text(whole)
    code, output = await product.run("retry", f"{saga_id}.1", "--yes")
    assert code == 0, output
    assert output.rstrip().endswith("compensated: 2 undone, 0 open")
    assert shelf.lines == ["take 1", "give 1"]


def _without_seats(tools: str) -> str:
    before, _, rest = tools.partition("@registry.tool\nasync def seat")
    _, _, after = rest.partition("@registry.tool\n")
    return f"{before}@registry.tool\n{after}"


@pytest.mark.slow
@pytest.mark.case(96)
async def test_an_undo_whose_parameters_changed_is_not_called_with_the_old_ones(product: Product, shelf: Shelf) -> None:
    async with product.serve() as agent:
        saga_id = (await agent.call("seat", SEAT="1")).saga_id
    shelf.tools.write_text(SHELF.replace("SEAT", "place"), encoding="utf-8")
    async with product.serve() as agent:
        stuck = await agent.call("saga_abort", saga_id=saga_id)
        assert (stuck.state, stuck.code) == ("needs_attention", "needs_person")
        (item,) = (await agent.status(saga_id))["items"]
        assert item["kind"] == "dead_letter"
        assert "SEAT" in stuck.text + str(await agent.status(saga_id))
    assert shelf.lines == ["take 1"]
    shelf.tools.write_text(SHELF, encoding="utf-8")
    code, output = await product.run("retry", f"{saga_id}.1", "--yes")
    assert code == 0, output
    assert shelf.lines == ["take 1", "give 1"]


@pytest.mark.case(66)
async def test_already_gone_is_a_failure_unless_the_author_says_that_it_is_none(product: Product, shelf: Shelf) -> None:
    shelf.configure(CONTINUE)
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for tool, name in (("open_case", "1"), ("open_ticket", "2"), ("open_case", "3")):
            await agent.call(tool, name=name, saga_id=saga_id)
        assert (await agent.call("saga_abort", saga_id=saga_id)).code == "needs_person"
        (item,) = (await agent.status(saga_id))["items"]
        assert (item["item"], item["kind"]) == (f"{saga_id}.2", "dead_letter")
    assert shelf.lines[3:] == ["close 3", "close 2", "close 2", "close 1"]


@pytest.mark.slow
@pytest.mark.case(61, 62)
async def test_an_undo_that_failed_for_good_is_seen_everywhere_and_a_person_can_finish_it(product: Product) -> None:
    product.configure(CONTINUE)
    product.world.plan(release=["err_before"], unhold=["err_before"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        await agent.call("hold", item="b", saga_id=saga_id)
        stuck = await agent.call("saga_abort", saga_id=saga_id)
        other = await agent.call("charge", cents=5)
        assert (await agent.call("saga_abort", saga_id=other.saga_id)).state == "compensated"
        names = [f"{saga_id}.2", f"{saga_id}.1"]
        assert (stuck.state, stuck.code) == ("needs_attention", "needs_person")
        assert sorted(stuck.facts["items"]) == names[::-1]
        status = await agent.status(saga_id)
        assert sorted(item["item"] for item in status["items"]) == names[::-1]
        assert [step["undo_error"] for step in status["steps"]] == ["NoEffect: planned: nothing was done"] * 2
    for tool in ("release", "unhold"):
        assert len(product.world.sent(tool)) == 4
    _, listed = await product.run("attention")
    for name in names:
        assert name in listed
    _, shown = await product.run("show", saga_id, "--json")
    assert shown.count("planned: nothing was done") >= len(names)
    product.world.plan(release=["ok"], unhold=["err_before"])
    code, output = await product.run("retry", f"{saga_id}.1", "--by", "ada", "--yes")
    assert output.rstrip().endswith("1 open"), output
    code, output = await product.run("resolve", f"{saga_id}.2", "--undone", "--by", "ada", "--note", "phoned", "--yes")
    assert code == 0, output
    assert output.rstrip().endswith("compensated: 1 undone, 1 by a person, 0 open")
    _, timeline = await product.run("show", saga_id, "--timeline")
    assert 'by ada; "phoned"' in timeline
    assert product.world.standing == ["hold(b)"]


@pytest.mark.slow
@pytest.mark.case(92)
async def test_undos_end_in_the_reverse_order_however_long_each_takes(product: Product) -> None:
    product.world.plan(release=["0.1", "0", "0.2", "0", "0.05"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for item in "12345":
            await agent.call("reserve", item=item, saga_id=saga_id)
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.order[5:] == [f"release({item})" for item in "54321"]
    assert [line.event for line in product.world.lines if line.tool == "release"] == ["sent", "did"] * 5


@pytest.mark.slow
@pytest.mark.case(93)
@pytest.mark.parametrize("name", ["parent_saga_id", "parent", "saga_parent_id"])
async def test_a_saga_inside_a_saga_is_no_argument_that_is_silently_dropped(product: Product, name: str) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for tool, arguments in (("saga_begin", {}), ("reserve", {"item": "a"})):
            refused = await agent.call(tool, **{name: saga_id}, **arguments)
            assert (refused.is_error, refused.code) == (True, "invalid_arguments")
            assert f'there is no argument "{name}"' in refused.text
        assert len((await agent.call("saga_status")).structured["sagas"]) == 1
    assert product.world.sent() == []


@pytest.mark.slow
@pytest.mark.case(38, 59)
async def test_an_abort_whose_caller_gave_up_is_joined_by_the_next_one(product: Product) -> None:
    product.world.plan(release=["hang_before"])
    async with product.serve() as agent:
        saga_id = (await agent.call("reserve", item="a")).saga_id
        first = await agent.ask("saga_abort", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("release")) == 1)
        await agent.cancel(first)
        second = await agent.ask("saga_abort", saga_id=saga_id)
        product.world.go()
        assert (await agent.reply_to(second)).state == "compensated"
        assert agent.replies_to(first) == []
    assert len(product.world.sent("release")) == 1
