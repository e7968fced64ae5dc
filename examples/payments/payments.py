"""Paying an invoice: read it and its vendor, check the policy, pay, post to the ledger, tell the treasury.

The outside world is a real SQLite file (`PAYMENTS_WORLD`, default `world.db` beside this file). Nothing is ever erased
in it, as accountants have it: a payment is refunded, an entry is reversed by another one, and both stay.

A notice waits in an outbox until somebody delivers it. Until then it can be withdrawn; afterwards only a person can
make good for it. And the bank allows an overdraft, but the house does not: that is the rule at the end.
"""
# A file loaded by its path is in no package (INP001), and `call` is not the agent's to fill in (D417).
# ruff: noqa: INP001, D417

import os
import sqlite3
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saga_tools import Call, NeedsPerson, NoEffect, ToolRegistry, Undo

TABLES = """
CREATE TABLE IF NOT EXISTS vendor (name TEXT PRIMARY KEY, iban TEXT, blocked INTEGER);
CREATE TABLE IF NOT EXISTS invoice (number TEXT PRIMARY KEY, vendor TEXT, cents INTEGER);
CREATE TABLE IF NOT EXISTS account (cents INTEGER);
CREATE TABLE IF NOT EXISTS clearance (key TEXT PRIMARY KEY, invoice TEXT, withdrawn INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS payment (key TEXT PRIMARY KEY, invoice TEXT, cents INTEGER, refunded INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS entry (key TEXT, invoice TEXT, cents INTEGER, UNIQUE (key, cents));
CREATE TABLE IF NOT EXISTS notice (key TEXT PRIMARY KEY, text TEXT, state TEXT DEFAULT 'waiting');
INSERT OR IGNORE INTO vendor VALUES ('Steel & Sons', 'DE02100100100006820101', 0), ('Shady Ltd', 'XX00', 1);
INSERT OR IGNORE INTO invoice VALUES ('R-17', 'Steel & Sons', 125000), ('R-18', 'Steel & Sons', 800000),
    ('R-19', 'Shady Ltd', 100);
INSERT INTO account SELECT 500000 WHERE NOT EXISTS (SELECT 1 FROM account);
"""


@dataclass
class Invoice:
    """An invoice that came in."""

    number: str
    vendor: str
    cents: int


@dataclass
class Vendor:
    """Who sends invoices."""

    name: str
    iban: str
    blocked: bool


@dataclass
class Payment:
    """A payment, and what is on the account after it."""

    reference: str
    cents: int
    balance_cents: int


def world_file() -> Path:
    """Return where the outside world is."""
    return Path(os.environ.get("PAYMENTS_WORLD") or Path(__file__).with_name("world.db"))


@contextmanager
def world() -> Generator[sqlite3.Connection]:
    """Open the outside world for one transaction: all of it happens, or, on an exception, nothing."""
    with closing(sqlite3.connect(world_file(), timeout=10, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


@asynccontextmanager
async def create_world() -> AsyncGenerator[None]:
    """Create the world on the first start."""
    with closing(sqlite3.connect(world_file(), timeout=10)) as connection:
        connection.executescript(TABLES)
    yield


registry = ToolRegistry(lifespan=create_world)


@registry.tool(kind="read_only")
def read_invoice(number: str) -> Invoice:
    """Read an invoice.

    Args:
        number: Such as R-17.
    """
    with world() as now:
        return _invoice(now, number)


@registry.tool(kind="read_only")
def read_vendor(name: str) -> Vendor:
    """Read who sent an invoice.

    Args:
        name: As the invoice says it.
    """
    with world() as now:
        iban, blocked = now.execute("SELECT iban, blocked FROM vendor WHERE name = ?", (name,)).fetchone()
    return Vendor(name, iban, bool(blocked))


@registry.tool(idempotent=True)
def check_policy(invoice: str, call: Call) -> str:
    """Check an invoice against the policy, and clear it for payment: once, and for vendors that are not blocked.

    Args:
        invoice: Its number.
    """
    with world() as now:
        vendor = _invoice(now, invoice).vendor
        if now.execute("SELECT 1 FROM vendor WHERE name = ? AND blocked", (vendor,)).fetchone():
            raise NoEffect(f"{vendor} is blocked")
        query = "SELECT 1 FROM clearance WHERE invoice = ? AND NOT withdrawn AND key <> ?"
        if now.execute(query, (invoice, call.key)).fetchone():
            raise NoEffect(f"{invoice} was cleared before")
        now.execute("INSERT OR IGNORE INTO clearance (key, invoice) VALUES (?, ?)", (call.key, invoice))
    return f"{invoice} is cleared for payment"


@registry.undoes(check_policy)
def withdraw_clearance(undo: Undo[str]) -> None:
    """Withdraw the clearance, if there is one."""
    with world() as now:
        now.execute("UPDATE clearance SET withdrawn = 1 WHERE key = ?", (undo.call_key,))


@registry.tool
def pay_invoice(invoice: str, call: Call) -> Payment:
    """Pay an invoice that is cleared.

    Args:
        invoice: Its number.
    """
    with world() as now:
        if not now.execute("SELECT 1 FROM clearance WHERE invoice = ? AND NOT withdrawn", (invoice,)).fetchone():
            raise NoEffect(f"{invoice} is not cleared: use check_policy")
        cents = _invoice(now, invoice).cents
        statement = "INSERT OR IGNORE INTO payment (key, invoice, cents) VALUES (?, ?, ?)"
        if now.execute(statement, (call.key, invoice, cents)).rowcount:
            now.execute("UPDATE account SET cents = cents - ?", (cents,))
        return Payment(call.key, cents, _balance(now))


@registry.undoes(pay_invoice)
def refund_payment(undo: Undo[Payment]) -> None:
    """Get the money back, once, if it was paid."""
    with world() as now:
        query = "UPDATE payment SET refunded = 1 WHERE key = ? AND NOT refunded RETURNING cents"
        paid = now.execute(query, (undo.call_key,)).fetchone()
        if paid:
            now.execute("UPDATE account SET cents = cents + ?", paid)


@registry.probes(pay_invoice)
def find_payment(call: Call) -> Payment | None:
    """Tell whether a payment that gave no answer was made."""
    with world() as now:
        paid = now.execute("SELECT cents FROM payment WHERE key = ? AND NOT refunded", (call.key,)).fetchone()
        return paid and Payment(call.key, paid[0], _balance(now))


@registry.tool(idempotent=True)
def post_ledger(invoice: str, call: Call) -> str:
    """Post a paid invoice to the ledger.

    Args:
        invoice: Its number.
    """
    with world() as now:
        cents = _invoice(now, invoice).cents
        now.execute("INSERT OR IGNORE INTO entry VALUES (?, ?, ?)", (call.key, invoice, cents))
    return call.key


@registry.undoes(post_ledger)
def reverse_entry(undo: Undo[str]) -> None:
    """Post the reversing entry, once, if there is an entry."""
    with world() as now:
        statement = "INSERT OR IGNORE INTO entry SELECT key, invoice, -cents FROM entry WHERE key = ? AND cents > 0"
        now.execute(statement, (undo.call_key,))


@registry.tool(idempotent=True)
def notify_treasury(text: str, call: Call) -> str:
    """Send the treasury a notice; it waits in the outbox until it is delivered.

    Args:
        text: What they should know.
    """
    with world() as now:
        now.execute("INSERT OR IGNORE INTO notice (key, text) VALUES (?, ?)", (call.key, text))
    return call.key


@registry.undoes(notify_treasury)
def withdraw_notice(undo: Undo[str]) -> None:
    """Withdraw the notice while it waits; what is delivered, only a person can make good for."""
    with world() as now:
        notice = now.execute("SELECT text, state FROM notice WHERE key = ?", (undo.call_key,)).fetchone()
        if notice and notice[1] == "delivered":
            raise NeedsPerson(f"The treasury has read: {notice[0]!r}. Tell them that it no longer holds.")
        now.execute("UPDATE notice SET state = 'withdrawn' WHERE key = ?", (undo.call_key,))


@registry.invariant
def balance_never_negative(results: Mapping[str, Any]) -> None:
    """The bank would allow it; the house does not."""
    if "pay_invoice" in results:
        assert results["pay_invoice"]["balance_cents"] >= 0  # noqa: S101 - a rule may raise, assert, or return False


def _invoice(now: sqlite3.Connection, number: str) -> Invoice:
    found = now.execute("SELECT number, vendor, cents FROM invoice WHERE number = ?", (number,)).fetchone()
    if found is None:
        raise NoEffect(f"there is no invoice {number}")
    return Invoice(*found)


def _balance(now: sqlite3.Connection) -> int:
    return int(now.execute("SELECT cents FROM account").fetchone()[0])
