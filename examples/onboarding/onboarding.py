"""Onboarding a customer: a CRM record, a card charge and a cloud machine, done by three agents in one saga.

The outside world is a real SQLite file (`ONBOARDING_WORLD`, default `world.db` beside this file). Its table `journal`
says what happened in which order, whoever did it.

A machine is made in several calls of a cloud: a disk, an address, then the machine itself. `start_machine` registers
what undoes each of them before it is made. When the cloud has no address left, the disk that is there already goes
again.
"""
# A file loaded by its path is in no package (INP001), and `call` is not the agent's to fill in (D417).
# ruff: noqa: INP001, D417

import os
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from saga_tools import Call, NoEffect, ToolRegistry, Undo

TABLES = """
CREATE TABLE IF NOT EXISTS contact (key TEXT PRIMARY KEY, company TEXT UNIQUE, email TEXT);
CREATE TABLE IF NOT EXISTS charge (key TEXT PRIMARY KEY, company TEXT, cents INTEGER, refunded INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS disk (key TEXT PRIMARY KEY, gb INTEGER);
CREATE TABLE IF NOT EXISTS address (ip TEXT PRIMARY KEY, key TEXT);
CREATE TABLE IF NOT EXISTS machine (key TEXT PRIMARY KEY, company TEXT, ip TEXT);
CREATE TABLE IF NOT EXISTS journal (what TEXT);
INSERT OR IGNORE INTO address (ip) VALUES ('203.0.113.7');
"""


@dataclass
class Contact:
    """A customer in the CRM."""

    reference: str
    company: str


@dataclass
class Charge:
    """A card payment."""

    reference: str
    cents: int


@dataclass
class Machine:
    """A running machine."""

    reference: str
    ip: str


def world_file() -> Path:
    """Return where the outside world is."""
    return Path(os.environ.get("ONBOARDING_WORLD") or Path(__file__).with_name("world.db"))


@contextmanager
def world() -> Generator[sqlite3.Connection]:
    """Open the outside world for one transaction: all of it happens, or, on an exception, nothing."""
    with closing(sqlite3.connect(world_file(), timeout=10, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


def change(now: sqlite3.Connection, what: str, statement: str, *values: object) -> bool:
    """Change the world, and note it in the journal if it changed; return whether it did."""
    changed = now.execute(statement, values).rowcount > 0
    if changed:
        now.execute("INSERT INTO journal VALUES (?)", (what,))
    return changed


@asynccontextmanager
async def create_world() -> AsyncGenerator[None]:
    """Create the world on the first start."""
    with closing(sqlite3.connect(world_file(), timeout=10)) as connection:
        connection.executescript(TABLES)
    yield


registry = ToolRegistry(lifespan=create_world)


@registry.tool(idempotent=True)
def create_contact(company: str, email: str, call: Call) -> Contact:
    """Add a customer to the CRM.

    Args:
        company: Its name.
        email: Whom to write to.
    """
    with world() as now:
        if now.execute("SELECT 1 FROM contact WHERE company = ? AND key <> ?", (company, call.key)).fetchone():
            raise NoEffect(f"{company} is a customer already")
        change(now, "contact created", "INSERT OR IGNORE INTO contact VALUES (?, ?, ?)", call.key, company, email)
    return Contact(call.key, company)


@registry.undoes(create_contact)
def remove_contact(undo: Undo[Contact]) -> None:
    """Take the customer out of the CRM, if this call added it."""
    with world() as now:
        change(now, "contact removed", "DELETE FROM contact WHERE key = ?", undo.call_key)


@registry.tool
def charge_card(company: str, cents: Annotated[int, Field(ge=1)], call: Call) -> Charge:
    """Charge a customer's card.

    Args:
        company: Its name.
        cents: Amount in cents.
    """
    with world() as now:
        statement = "INSERT OR IGNORE INTO charge (key, company, cents) VALUES (?, ?, ?)"
        change(now, "card charged", statement, call.key, company, cents)
    return Charge(call.key, cents)


@registry.undoes(charge_card)
def refund_card(undo: Undo[Charge]) -> None:
    """Refund the payment, if there was one and it is not refunded yet; the statement keeps both."""
    with world() as now:
        statement = "UPDATE charge SET refunded = 1 WHERE key = ? AND NOT refunded"
        change(now, "card refunded", statement, undo.call_key)


@registry.probes(charge_card)
def find_charge(call: Call) -> Charge | None:
    """Tell whether a payment that gave no answer was made."""
    with world() as now:
        paid = now.execute("SELECT cents FROM charge WHERE key = ?", (call.key,)).fetchone()
    return paid and Charge(call.key, paid[0])


@registry.tool
async def start_machine(company: str, gb: Annotated[int, Field(ge=1)], call: Call) -> Machine:
    """Start a customer's machine in the cloud.

    Args:
        company: Whose it is.
        gb: Size of its disk.
    """
    await call.on_undo(delete_disk, key=call.key)
    with world() as now:
        change(now, "disk made", "INSERT INTO disk VALUES (?, ?)", call.key, gb)

    await call.on_undo(free_address, key=call.key)
    with world() as now:
        statement = "UPDATE address SET key = ? WHERE ip = (SELECT ip FROM address WHERE key IS NULL)"
        if not change(now, "address taken", statement, call.key):
            raise RuntimeError("the cloud has no address left")  # not NoEffect: the disk is there
        [ip] = now.execute("SELECT ip FROM address WHERE key = ?", (call.key,)).fetchone()

    with world() as now:
        change(now, "machine started", "INSERT INTO machine VALUES (?, ?, ?)", call.key, company, ip)
    return Machine(call.key, ip)


@registry.undoes(start_machine)
def stop_machine(undo: Undo[Machine]) -> None:
    """Stop the machine, if it was started; its parts go after it, last first."""
    with world() as now:
        change(now, "machine stopped", "DELETE FROM machine WHERE key = ?", undo.call_key)


@registry.part
def delete_disk(key: str) -> None:
    """Delete a disk, if there is one."""
    with world() as now:
        change(now, "disk deleted", "DELETE FROM disk WHERE key = ?", key)


@registry.part
def free_address(key: str) -> None:
    """Give an address back, if one is taken."""
    with world() as now:
        change(now, "address freed", "UPDATE address SET key = NULL WHERE key = ?", key)
