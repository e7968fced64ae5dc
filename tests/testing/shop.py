"""A shop that writes down what happened in it: the outside world of the harness's own tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date

from saga_tools import Call, NeedsPerson, ToolRegistry, Undo


@dataclass(frozen=True)
class Order:
    """An order, as `order` returns it."""

    key: str
    item: str
    due: date


class Shop:
    """What happened, in order; and the tools that make it happen."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.lifespans = 0
        self.registry = ToolRegistry(lifespan=self.opened)
        self._add_orders()
        self._add_others()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[str]:
        self.lifespans += 1
        yield "the shop"

    def _add_orders(self) -> None:
        registry, happened = self.registry, self.happened

        @registry.tool
        async def order(item: str, due: date, call: Call) -> Order:
            """Order an item."""
            happened.append(f"ordered {item}")
            return Order(call.key, item, due)

        @registry.undoes(order)
        async def cancel(item: str, undo: Undo[Order]) -> None:
            happened.append(f"cancelled {item}{'' if undo.result else ', order unknown'}")

        @registry.tool
        def pack(item: str) -> str:
            """Pack an item, in a thread."""
            happened.append(f"packed {item}")
            return item

        @registry.undoes(pack)
        def unpack(item: str) -> None:
            happened.append(f"unpacked {item}")

    def _add_others(self) -> None:
        registry, happened = self.registry, self.happened

        @registry.tool
        async def gather(items: list[str], call: Call) -> list[str]:
            """Gather items, one after the other."""
            for item in items:
                await call.on_undo(put_back, item=item)
                happened.append(f"took {item}")
            return items

        @registry.part
        async def put_back(item: str) -> None:
            happened.append(f"put {item} back")

        @registry.undoes(gather)
        async def close_gathering(items: list[str]) -> None:
            happened.append(f"closed {len(items)}")

        @registry.tool
        async def deliver(item: str) -> None:
            """Deliver an item."""
            happened.append(f"delivered {item}")

        @registry.undoes(deliver)
        async def ask_back(item: str) -> None:
            raise NeedsPerson(f"call whoever got {item}", urgency="high")

        @registry.tool(kind="pivot")
        async def hand_over(item: str) -> str:
            """Hand an item over."""
            happened.append(f"handed over {item}")
            return item

        @registry.tool(kind="retriable", idempotent=True)
        async def weigh(grams: int) -> int:
            """Weigh what was handed over."""
            return grams

        @registry.tool(kind="read_only")
        async def stock() -> int:
            """Count what happened."""
            return len(happened)

        @registry.invariant
        def no_feathers(results: Mapping[str, object]) -> bool:
            return results.get("pack") != "feathers" and results.get("weigh") != 0
