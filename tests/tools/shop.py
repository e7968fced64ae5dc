"""A small shop of Python tools, and short ways to call them as the engine does."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import anyio
from pydantic import BaseModel

from saga_mcp.domain.frozen import PartSpec
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.catalogue import ConfiguredCatalogue, catalogue_of
from saga_mcp.tools.declared import declare
from saga_mcp.tools.port import (
    CallContext,
    Outcome,
    StepFacts,
    UndoContext,
    UndoOutcome,
)
from saga_mcp.tools.python import PythonRegistry, PythonThreads
from saga_tools import Call, ToolRegistry, Undo


class Charge(BaseModel):
    id: int
    at: dt.date = dt.date(2026, 1, 2)


class Numpys:
    """A bool of another library, which is none of Python's."""

    def __init__(self, *, says: bool) -> None:
        self._says = says

    def __bool__(self) -> bool:
        return self._says


Numpys.__module__, Numpys.__name__ = "numpy", "bool_"


@dataclass
class World:
    """What the tools did."""

    charges: dict[int, int] = field(default_factory=dict[int, int])
    parts: list[PartSpec] = field(default_factory=list[PartSpec])
    registered: list[tuple[str, JsonObject]] = field(default_factory=list[tuple[str, JsonObject]])
    seen: list[Any] = field(default_factory=list[Any])


def serve(registry: ToolRegistry, name: str = "shop") -> ConfiguredCatalogue:
    declared = declare(name, registry)
    return catalogue_of([declared], {name: PythonRegistry(declared, PythonThreads())})


def context(world: World) -> CallContext:
    async def register(part: PartSpec) -> None:
        world.parts.append(part)
        world.registered.append((part.tool, part.args))

    return CallContext(saga_id="sg-1", number=2, key="key-2", attempt=1, register_undo=register)


async def call(catalogue: ConfiguredCatalogue, name: str, args: JsonObject, world: World | None = None) -> Outcome:
    tool = catalogue.tool(name)
    assert tool is not None
    with anyio.fail_after(5):
        return await tool.call(tool.decode(args), context(world or World()))


def facts(args: JsonObject, result: JsonValue = None, *, known: bool = True, tool: str = "shop.charge") -> StepFacts:
    return StepFacts(saga_id="sg-1", tool=tool, number=2, key="key-2", args=args, result=result, known=known)


async def undo(catalogue: ConfiguredCatalogue, name: str, args: JsonObject, step: StepFacts) -> UndoOutcome:
    undoer = catalogue.undoer(name)
    assert undoer is not None
    with anyio.fail_after(5):
        return await undoer.undo(args, UndoContext(step=step, undo_key="key-2.u1.g1", cause="agent"))


def shop(world: World) -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool
    async def charge(cents: int, call: Call) -> Charge:
        world.seen.append(call.key)
        world.charges[len(world.charges)] = cents
        return Charge(id=len(world.charges) - 1)

    @registry.undoes(charge)
    def refund(cents: int, undo: Undo[Charge]) -> None:
        world.seen.append(undo)
        assert undo.result is not None
        assert world.charges.pop(undo.result.id) == cents

    @registry.probes(charge)
    async def find(cents: int, call: Call) -> Charge | None:
        world.seen.append(call.key)
        return next((Charge(id=id_) for id_, paid in world.charges.items() if paid == cents), None)

    return registry
