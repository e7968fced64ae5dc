"""Binding the undo of a step from its frozen pair, and what a catalogue offers (S6.1, S6.2, S9.3, S11.3)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from tests.tools.shop import Numpys

from saga_mcp.domain.events import PartSpec
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.values import JsonObject, JsonValue, Kind, PartAction, Urgency
from saga_mcp.tools.catalogue import ConfiguredCatalogue, catalogue_of
from saga_mcp.tools.declared import declare
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_mcp.tools.port import Judged, StepFacts, UndoContext, Undone
from saga_mcp.tools.python import PythonRegistry, PythonThreads
from saga_mcp.tools.undo_plan import fill_late
from saga_tools import Call, ToolRegistry, Undo
from saga_tools.server import add

EMPTY = ConfiguredCatalogue([], undoers={})
STEP = StepFacts(
    saga_id="sg-1",
    tool="shop.order",
    number=2,
    key="key-2",
    args={"name": "ada", "n": 2**70},
    result={"id": 7},
    known=True,
)
IN_DOUBT = replace(STEP, result=None, known=False)


def pair(*undo: UndoEntry) -> Pair:
    return Pair(tool="crm.create", kind=Kind.COMPENSABLE, undo=undo)


def delete(**args: JsonValue) -> UndoEntry:
    return UndoEntry(tool="crm.delete", args=args, idempotent=True)


def serve(*registries: tuple[str, ToolRegistry]) -> ConfiguredCatalogue:
    declared = [declare(name, registry) for name, registry in registries]
    threads = PythonThreads()
    return catalogue_of(declared, {each.name: PythonRegistry(each, threads) for each in declared})


def test_arguments_are_frozen_exactly() -> None:
    bound = EMPTY.bind(pair(delete(id="${result.id}", big="${args.n}", text="lead ${args.name}")), STEP)
    parts, error = bound.parts, bound.build_error
    assert error == ""
    assert parts is not None
    assert [part.args for part in parts] == [{"id": 7, "big": 2**70, "text": "lead ada"}]
    assert parts[0] == PartSpec(action=PartAction.CALL, tool="crm.delete", entry=0, idempotent=True)


def test_every_entry_whose_condition_holds_runs_in_written_order() -> None:
    entries = (
        replace(delete(id=1), when="${args.name == 'ada'}"),
        replace(delete(id=2), when="${args.name == 'bob'}"),
        UndoEntry(action=PartAction.MANUAL, message="Write to ${args.name}.", urgency=Urgency.HIGH),
        UndoEntry(action=PartAction.LEAVE, message="lead ${result.id}", when="${known}"),
    )
    bound = EMPTY.bind(pair(*entries), STEP)
    parts = bound.parts
    assert parts is not None
    assert [(part.action, part.entry, part.message) for part in parts] == [
        (PartAction.CALL, 0, ""),
        (PartAction.MANUAL, 2, "Write to ada."),
        (PartAction.LEAVE, 3, "lead 7"),
    ]
    assert parts[1].urgency is Urgency.HIGH


def test_an_entry_with_each_becomes_a_part_for_every_item() -> None:
    step = replace(STEP, result={"tasks": [{"id": 1}, {"id": 2}]})
    bound = EMPTY.bind(pair(replace(delete(id="${item.id}"), each="${result.tasks}")), step)
    parts = bound.parts
    assert parts is not None
    assert [part.args for part in parts] == [{"id": 1}, {"id": 2}]


def test_an_entry_with_each_over_nothing_has_nothing_to_undo() -> None:
    step = replace(STEP, result={"tasks": []})
    bound = EMPTY.bind(pair(replace(delete(id="${item.id}"), each="${result.tasks}")), step)
    parts, error = bound.parts, bound.build_error
    assert error == ""
    assert parts is not None
    assert [part.action for part in parts] == [PartAction.NOTHING]


@pytest.mark.parametrize(
    ("undo", "step", "error"),
    [
        pytest.param(replace(delete(id=1), when=False), STEP, "no undo entry applies to this call", id="none-applies"),
        pytest.param(
            delete(id="${result.lead}"), STEP, "undo[0]: .id: ${result.lead}: result.lead is missing", id="path"
        ),
        pytest.param(
            replace(delete(id=1), when="${args.name}"),
            STEP,
            "undo[0]: value: ${args.name}: a condition has to come to true or false",
            id="no-boolean",
        ),
        pytest.param(
            replace(delete(id="${item}"), each="${result.id}"),
            STEP,
            "undo[0]: each: ${${result.id}}: it has to come to a list",
            id="no-list",
        ),
        pytest.param(
            delete(id="${result.id}"), IN_DOUBT, "undo[0] needs the result, which is not known", id="result-not-known"
        ),
        pytest.param(
            replace(delete(id="${args.name}"), needs_result=True),
            IN_DOUBT,
            "undo[0] needs the result, which is not known",
            id="needs-result",
        ),
        pytest.param(
            replace(delete(id=1), when="${result.id == 7}"),
            IN_DOUBT,
            "undo[0].when needs the result, which is not known",
            id="condition-on-result",
        ),
        pytest.param(delete(id="${text}"), IN_DOUBT, "undo[0] needs the result, which is not known", id="text"),
        pytest.param(delete(id="${nonsense("), STEP, "TemplateError", id="of-another-version"),
    ],
)
def test_an_undo_that_cannot_be_built_says_why(undo: UndoEntry, step: StepFacts, error: str) -> None:
    """S6.1, S6.8, S11.3: never half an undo."""
    bound = EMPTY.bind(pair(undo), step)
    parts, why = bound.parts, bound.build_error
    assert parts is None
    assert why.startswith(error)


def test_one_entry_that_cannot_be_built_leaves_none_of_the_others() -> None:
    bound = EMPTY.bind(pair(delete(id=1), delete(id="${result.nothing}")), STEP)
    parts, why = bound.parts, bound.build_error
    assert parts is None
    assert why == "undo[1]: .id: ${result.nothing}: result.nothing is missing"


def test_an_entry_that_does_not_apply_needs_no_result() -> None:
    entries = (replace(delete(id="${result.id}"), when="${known}"), replace(delete(id=0), when="${!known}"))
    bound = EMPTY.bind(pair(*entries), IN_DOUBT)
    parts = bound.parts
    assert parts is not None
    assert [part.args for part in parts] == [{"id": 0}]


def test_a_tool_without_an_undo_has_nothing_to_bind() -> None:
    assert EMPTY.bind(Pair(tool="mail.send", kind=Kind.PIVOT), STEP) == BoundUndo()


async def test_cause_and_the_undos_key_are_filled_in_when_it_is_sent() -> None:
    registry, seen = ToolRegistry(), list[JsonObject]()

    def erase(name: str, why: str, key: str) -> None:
        seen.append({"name": name, "why": why, "key": key})

    add(registry, erase)
    catalogue = serve(("crm", registry))
    undo = UndoEntry(tool="crm.erase", args={"name": "${args.name}", "why": "${cause}", "key": "${ step.undo_key }"})
    bound = catalogue.bind(pair(undo), STEP)
    parts = bound.parts
    assert parts is not None
    undoer = catalogue.undoer(parts[0].tool)
    assert undoer is not None
    with anyio.fail_after(5):
        context = UndoContext(step=STEP, undo_key="key-2.u1.g1", cause="operator")
        outcome = await undoer.undo(fill_late(parts[0], context), context)
    assert outcome == Undone()
    assert seen == [{"name": "ada", "why": "operator", "key": "key-2.u1.g1"}]


async def test_a_value_that_looks_like_a_placeholder_stays_as_it_is() -> None:
    step = replace(STEP, args={"name": "${cause}", "n": 1})
    bound = EMPTY.bind(pair(delete(id="${args.name}")), step)
    parts = bound.parts
    assert parts is not None
    assert parts[0].args == {"id": "${cause}"}


async def test_a_pair_in_code_is_bound_by_plain_paths_and_undoes() -> None:
    registry, world = ToolRegistry(), dict[str, int]()

    @registry.tool
    def put(namespace: str, null: int, call: Call) -> None:
        del call
        world[namespace] = null

    @registry.undoes(put)
    def take(null: int, namespace: str, undo: Undo[Any]) -> None:
        del undo
        assert world.pop(namespace) == null

    catalogue = serve(("box", registry))
    tool = catalogue.offered["put"]
    step = replace(IN_DOUBT, tool="box.put", args={"namespace": "a", "null": 2**70})
    world["a"] = 2**70
    bound = catalogue.bind(tool.pair, step)
    parts, error = bound.parts, bound.build_error
    assert (error, parts) == ("", (PartSpec(action=PartAction.CALL, tool="box.take", entry=0, idempotent=True),))
    assert parts is not None
    undoer = catalogue.undoer("box.take")
    assert undoer is not None
    with anyio.fail_after(5):
        assert await undoer.undo(parts[0].args, UndoContext(step=step, undo_key="k", cause="agent")) == Undone()
    assert world == {}


def test_tools_are_offered_in_the_order_of_the_config_and_of_registration() -> None:
    first, second = ToolRegistry(), ToolRegistry()

    def b() -> None: ...
    def a() -> None: ...
    def c() -> None: ...

    second.tool(kind="read_only")(c)
    first.tool(kind="read_only")(b)
    first.tool(kind="read_only")(a)
    catalogue = serve(("one", first), ("two", second))
    assert list(catalogue.offered) == ["b", "a", "c"]
    assert [tool.pair.tool for tool in catalogue.offered.values()] == ["one.b", "one.a", "two.c"]


def test_what_is_not_there_is_none() -> None:
    assert EMPTY.tool("crm.create") is None
    assert EMPTY.undoer("crm.delete") is None


async def test_an_invariant_is_violated_where_it_raises_asserts_or_says_false() -> None:
    """S9.3, S11.3."""
    registry = ToolRegistry()

    @registry.invariant
    def holds(results: dict[str, Any]) -> None:
        assert results["balance"] >= 0

    @registry.invariant
    def says_false(results: dict[str, Any]) -> bool:
        return bool(results["balance"] > 5)

    @registry.invariant
    def exits(results: dict[str, Any]) -> None:
        if results.pop("balance") < 0:
            raise SystemExit

    catalogue = serve(("bank", registry))
    assert await catalogue.violations(Judged(results={"balance": 9})) == ()
    assert await catalogue.violations(Judged(results={"balance": 1})) == ("says_false",)
    assert await catalogue.violations(Judged(results={"balance": -1})) == ("holds", "says_false", "exits")
    assert await catalogue.violations(Judged(results={})) == ("holds", "says_false", "exits")


async def says_true() -> bool:
    return True


@pytest.mark.parametrize("said", [None, True, Numpys(says=True)])
async def test_a_rule_holds_that_says_nothing_or_true(said: object) -> None:
    assert await violated_where_it_says(lambda: said) == ()


@pytest.mark.parametrize(
    "said", [False, Numpys(says=False), 0, 1, "", "yes", "no", [], {}, object(), float("nan"), Ellipsis]
)
async def test_a_rule_is_violated_that_says_anything_else(said: object) -> None:
    """S11.3: what is no clear yes is not taken for one."""
    assert await violated_where_it_says(lambda: said) == ("rule",)


async def test_a_rule_that_would_have_to_be_awaited_is_violated() -> None:
    assert await violated_where_it_says(says_true) == ("rule",)


async def violated_where_it_says(say: Callable[[], object]) -> tuple[str, ...]:
    registry = ToolRegistry()

    @registry.invariant
    def rule(results: dict[str, Any]) -> object:
        del results
        return say()

    with anyio.fail_after(10):
        return await serve(("bank", registry)).violations(Judged(results={}))


async def test_no_rule_holds_over_more_results_than_it_may_see() -> None:
    """S9.3, S11.3: what cannot be checked is not taken for right."""
    registry = ToolRegistry()

    @registry.invariant
    def content(results: dict[str, Any]) -> None:
        assert results

    catalogue = serve(("bank", registry))
    assert await catalogue.violations(Judged(results={"report": "x" * 255_000})) == ()
    assert await catalogue.violations(Judged(results={"report": "x" * 256_000})) == ("content",)
