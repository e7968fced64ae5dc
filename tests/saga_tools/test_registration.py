"""Registering tools: what a decorated function is afterwards, and what the registry says of it.

Annotations are text in this module (see the future import), so everything here also shows that they are resolved.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field

from saga_tools import Call, PairError, Retry, ToolRegistry, Undo
from saga_tools.server import add, registered


@dataclass
class Charge:
    id: str
    cents: int


def charge_registry() -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool(timeout_s=10, title="Charge a card")
    async def charge(customer: str, cents: int, call: Call) -> Charge:
        """Charge a customer's card.

        Args:

            customer: Who pays.
            cents: How much,
                in cents.
        """
        return Charge(f"{customer}-{call.key}", cents)

    @registry.undoes(charge, retry=Retry(3, 1, 10))
    def refund(customer: str, undo: Undo[Charge]) -> None: ...

    @registry.probes(charge)
    async def find_charge(call: Call) -> Charge | None: ...

    @registry.part
    def release(ip: str, undo: Undo[Charge]) -> None: ...

    @registry.invariant
    def never_negative(results: dict[str, object]) -> None: ...

    return registry


async def test_a_decorated_function_is_the_function_itself() -> None:
    registry = ToolRegistry()

    async def charge(customer: str, cents: int, call: Call) -> Charge:
        return Charge(f"{customer}-{call.key}", cents)

    def refund(customer: str) -> str:
        return customer

    assert registry.tool(charge) is charge
    assert registry.undoes(charge)(refund) is refund
    assert await charge("ada", cents=3, call=Call.for_test(key="k1")) == Charge("ada-k1", 3)


def test_everything_that_belongs_to_a_tool_is_found_at_it() -> None:
    registry = charge_registry()
    assert registry.check() == []
    tool = registered(registry).tools["charge"]
    assert tool.undo is not None
    assert tool.probe is not None
    assert (tool.undo.name, tool.undo.is_async, tool.undo.arguments.names) == ("refund", False, ("customer",))
    assert (tool.probe.name, tool.probe.is_async, tool.probe.call_parameter) == ("find_charge", True, "call")
    assert [rule.name for rule in registered(registry).invariants] == ["never_negative"]
    assert {name: undo.role for name, undo in registered(registry).callables.items()} == {
        "refund": "undo",
        "release": "part",
    }


def test_traits_are_kept_and_the_rest_has_the_documented_defaults() -> None:
    registry = charge_registry()
    traits = registered(registry).tools["charge"].traits
    assert (traits.kind, traits.timeout_s, traits.deadline_s, traits.settle_s) == ("compensable", 10, 100, 5)
    assert (traits.idempotent, traits.error_means, traits.on_repeat) == (False, "unknown", "run")
    undo = registered(registry).callables["refund"].traits
    assert (undo.idempotent, undo.safe_if_absent, undo.needs_result, undo.retry.attempts) == (True, True, False, 3)
    part = registered(registry).callables["release"].traits
    assert (part.retry, part.timeout_s) == (Retry(8, 1, 300), 30)
    assert Retry(attempts=3) == Retry(3, 0.5, 20)
    assert traits.retry is None  # once; of a retriable tool as of an undo
    assert Retry() == Retry(1)


def test_the_docstring_becomes_the_descriptions() -> None:
    tool = registered(charge_registry()).tools["charge"]
    assert tool.title == "Charge a card"
    assert tool.description == "Charge a customer's card."
    described = {name: field["description"] for name, field in tool.input_schema["properties"].items()}
    assert described == {"customer": "Who pays.", "cents": "How much, in cents."}


def test_the_call_is_found_by_its_annotation_and_never_by_its_name() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def phone(call: str, undo: int, which: Annotated[Call | None, "optional too"] = None) -> None: ...

    tool = registered(registry).tools["phone"]
    assert tool.call_parameter == "which"
    assert list(tool.input_schema["properties"]) == ["call", "undo"]


def test_classes_of_the_enclosing_function_are_resolved_though_annotations_are_text() -> None:
    @dataclass
    class Seat:
        row: int

    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def take(seat: Seat) -> Seat:
        return seat

    assert registered(registry).tools["take"].decode({"seat": {"row": 3}}).kwargs == {"seat": Seat(3)}


def test_a_field_given_as_the_default_keeps_its_default_and_constraints() -> None:
    registry = ToolRegistry()
    amount, tags_of = Field(300, ge=1, title="Amount"), Field(default_factory=list[str])

    @registry.tool(kind="pivot")
    def pay(cents: int = amount, tags: list[str] = tags_of) -> None: ...

    tool = registered(registry).tools["pay"]
    assert tool.decode({}).kwargs == {"cents": 300, "tags": []}
    assert tool.input_schema["properties"]["cents"] == {
        "type": "integer",
        "default": 300,
        "minimum": 1,
        "title": "Amount",
    }


def test_a_wrapped_function_is_what_its_wrapper_is() -> None:
    """The signature shows through a decorator; whether it is awaited is the wrapper's own matter."""
    registry = ToolRegistry()

    def wrapped(function: Callable[[int], int]) -> Callable[[int], Awaitable[int]]:
        @functools.wraps(function)
        async def later(cents: int) -> int:
            return function(cents)

        return later

    @registry.tool(kind="pivot")
    @wrapped
    def pay(cents: int) -> int:
        return cents

    assert registered(registry).tools["pay"].is_async
    assert registered(registry).tools["pay"].arguments.names == ("cents",)


def test_a_name_and_kind_given_in_code_are_used() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="read_only", name="find_flights")
    def search(where: str) -> list[str]:
        return [where]

    assert list(registered(registry).tools) == ["find_flights"]
    assert registered(registry).tools["find_flights"].kind == "read_only"


def test_a_plain_function_is_added_with_its_undo_declared_elsewhere() -> None:
    registry = ToolRegistry()

    def create_lead(name: str) -> dict[str, str]:
        return {"lead_id": name}

    add(registry, create_lead)
    assert registry.check() == []
    assert registered(registry).tools["create_lead"].paired_elsewhere


def test_one_function_may_undo_two_tools() -> None:
    registry = ToolRegistry()

    @registry.tool
    def reserve(seat: str) -> None: ...

    @registry.tool
    def hold(seat: str) -> None: ...

    @registry.undoes(reserve)
    @registry.undoes(hold)
    def release(seat: str) -> None: ...

    assert [
        tool.undo is not None and tool.undo.function is release for tool in registered(registry).tools.values()
    ] == [True, True]
    assert list(registered(registry).callables) == ["release"]


async def test_the_lifespan_yields_what_the_tools_share() -> None:
    @asynccontextmanager
    async def open_clients() -> AsyncGenerator[str]:
        yield "clients"

    registry = ToolRegistry(lifespan=open_clients, name="billing")
    assert registry.name == "billing"
    assert registry.lifespan is not None
    async with registry.lifespan() as deps:
        assert deps == "clients"


def test_on_undo_finds_undos_and_parts_and_names_anything_else() -> None:
    registry = ToolRegistry()

    @registry.tool
    def book(seat: str) -> None: ...

    @registry.undoes(book)
    def unbook(seat: str) -> None: ...

    def unbok() -> None: ...

    assert registered(registry).callable_for(unbook) is registered(registry).callables["unbook"]
    with pytest.raises(PairError, match=r"`unbok`, which is neither.*`@registry.part` on it, did you mean `unbook`"):
        registered(registry).callable_for(unbok)
