"""What agents see of a tool, and which arguments are the saga's own (DESIGN.md 5.3, SEMANTICS.md S11.1)."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from mcp.client import Client
from tests.edge.scripted import SAGA_ID, Script, scripted, told_tool
from tests.edge.served import ERAS, facts_of

from saga_mcp.domain.values import JsonObject, Kind, PartAction
from saga_mcp.edge.descriptions import INSTRUCTIONS
from saga_mcp.edge.listing import govern
from saga_mcp.engine.port import SagaIdMistyped
from saga_mcp.tools.pair import UndoEntry
from saga_mcp.tools.unsent import InvalidArguments

OBJECT: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("era", ERAS)
async def test_every_connection_gets_the_same_list_with_the_control_tools_first(era: str) -> None:
    server = scripted(Script(), told_tool("zeta"), told_tool("alpha"))
    lists: list[Any] = []
    for _ in range(2):
        async with Client(server, mode=era) as client:
            lists.append((await client.list_tools()).tools)
    controls = ["saga_begin", "saga_commit", "saga_abort", "saga_status", "saga_savepoint"]
    assert [tool.name for tool in lists[0]] == [*controls, "zeta", "alpha"]
    assert lists[0] == lists[1]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_server_introduces_itself(mode: str) -> None:
    async with Client(scripted(Script()), mode=mode) as client:
        assert client.instructions == INSTRUCTIONS
        assert client.server_info is not None
        assert client.server_info.name == "saga-mcp"
        assert client.server_info.version
        assert client.server_capabilities.tools is not None


async def test_a_modern_client_is_told_that_the_list_may_change() -> None:
    """MCP_FACTS.md 1.6; older clients learn it from the options of the transport."""
    async with Client(scripted(Script()), mode="auto") as client:
        tools = client.server_capabilities.tools
    assert tools is not None
    assert tools.list_changed is True


@pytest.mark.case(81)
@pytest.mark.parametrize("era", ERAS)
async def test_every_listed_schema_is_sound_and_no_tool_can_approve_anything(era: str) -> None:
    """A human step that a model can take is no human step."""
    async with Client(scripted(Script(), told_tool(output=OBJECT)), mode=era) as client:
        for tool in (await client.list_tools()).tools:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema or {})
            assert "approve" not in str(tool.input_schema)
        refused = await client.call_tool("act", {"x": 1, "approved": True})
    assert refused.is_error
    assert facts_of(refused)["code"] == "invalid_arguments"


@pytest.mark.parametrize(
    ("kind", "undo", "line", "destructive"),
    [
        (Kind.COMPENSABLE, (UndoEntry(tool="u"),), "Undoable until saga_commit.", False),
        (Kind.COMPENSABLE, (UndoEntry(action=PartAction.MANUAL),), "Undo needs a person.", True),
        (Kind.COMPENSABLE, (UndoEntry(action=PartAction.LEAVE),), "An abort leaves what it did in place.", True),
        (Kind.PIVOT, (), "Point of no return: cannot be undone.", True),
        (Kind.RETRIABLE, (), "Cannot be undone; only after the point of no return.", True),
    ],
)
def test_the_kind_says_what_the_description_gains_and_what_the_annotations_promise(
    kind: Kind, undo: tuple[UndoEntry, ...], line: str, *, destructive: bool
) -> None:
    listed = govern(told_tool(kind=kind, undo=undo)).listed
    assert listed.description == f"Acts.\n{line}"
    assert listed.annotations is not None
    assert listed.annotations.destructive_hint is destructive
    assert listed.annotations.read_only_hint is False


def test_a_read_only_tool_gains_nothing() -> None:
    listed = govern(told_tool(kind=Kind.READ_ONLY, output=OBJECT)).listed
    assert listed.description == "Acts."
    assert list(listed.input_schema["properties"]) == ["x"]
    assert listed.output_schema == OBJECT
    assert listed.annotations is not None
    assert listed.annotations.read_only_hint is True


def test_a_write_tool_gains_the_saga_id_and_where_it_is_offered_the_step_key() -> None:
    assert list(govern(told_tool()).listed.input_schema["properties"]) == ["x", "saga_id"]
    keyed = govern(told_tool(step_key=True))
    assert list(keyed.listed.input_schema["properties"]) == ["x", "saga_id", "step_key"]
    arguments = keyed.split({"x": 1, "saga_id": f" {SAGA_ID.upper()} ", "step_key": "k"})
    assert (arguments.tool, arguments.saga_id, arguments.step_key) == ({"x": 1}, SAGA_ID, "k")


def test_a_name_that_the_tool_has_itself_moves_ours() -> None:
    tool = govern(told_tool(schema={"type": "object", "properties": {"saga_id": {"type": "string"}}}))
    arguments = tool.split({"saga_id": "the tool's own", "saga__saga_id": SAGA_ID})
    assert arguments.tool == {"saga_id": "the tool's own"}
    assert arguments.saga_id == SAGA_ID


@pytest.mark.case(56)
@pytest.mark.parametrize("name", ["saga", "sagaid", "sagaId", "saga-id", "Saga_ID", "saga_ids"])
@pytest.mark.parametrize("extra", [None, True])
def test_a_misspelt_saga_id_is_refused_even_by_a_tool_that_takes_any_argument(name: str, *, extra: bool | None) -> None:
    """It would silently open a new saga."""
    schema: JsonObject = {"type": "object", "properties": {"x": {}}}
    tool = govern(told_tool(schema=schema if extra is None else {**schema, "additionalProperties": extra}))
    with pytest.raises(InvalidArguments, match=f'no argument "{name}" .did you mean "saga_id"'):
        tool.split({"x": 1, name: SAGA_ID})


def test_unknown_arguments_are_refused_by_name_with_the_nearest_known_one() -> None:
    tool = govern(told_tool(schema={"type": "object", "properties": {"recipient": {}}}))
    assert tool.listed.input_schema["additionalProperties"] is False
    with pytest.raises(InvalidArguments) as caught:
        tool.split({"recipent": "a", "zzz": 1})
    assert caught.value.problems == (
        'there is no argument "recipent" (did you mean "recipient"?)',
        'there is no argument "zzz"',
    )


@pytest.mark.parametrize("extra", [True, {"type": "string"}])
def test_a_tool_that_invites_further_arguments_gets_them(extra: JsonObject | bool) -> None:  # noqa: FBT001 - a schema may be one
    schema: JsonObject = {"type": "object", "properties": {}, "additionalProperties": extra}
    tool = govern(told_tool(schema=schema))
    assert tool.listed.input_schema["additionalProperties"] == extra
    assert tool.split({"usage_id": "a"}).tool == {"usage_id": "a"}


def test_a_saga_id_given_to_a_read_only_tool_costs_nothing() -> None:
    """The instructions say "every call", and models obey."""
    reads = govern(told_tool(kind=Kind.READ_ONLY))
    assert reads.split({"x": 1, "saga_id": "whatever"}).tool == {"x": 1}
    own = told_tool(kind=Kind.READ_ONLY, schema={"type": "object", "properties": {"saga_id": {}}})
    assert govern(own).split({"saga_id": "its own"}).tool == {"saga_id": "its own"}


@pytest.mark.parametrize("value", ["", "sg-1", SAGA_ID[:-1] + "1"])
def test_a_saga_id_that_cannot_be_one_is_told_from_an_unknown_one(value: str) -> None:
    with pytest.raises(SagaIdMistyped):
        govern(told_tool()).split({"saga_id": value})


@pytest.mark.parametrize("arguments", [{"saga_id": None}, {"saga_id": 5}, {"step_key": ""}, {"step_key": "k" * 201}])
def test_our_own_arguments_must_be_texts_of_sensible_length(arguments: JsonObject) -> None:
    with pytest.raises(InvalidArguments):
        govern(told_tool(step_key=True)).split(arguments)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "maxProperties": 1},
        {"type": "object", "patternProperties": {"^s": {"type": "integer"}}},
        {"type": ["object", "null"]},
    ],
)
def test_an_output_schema_that_could_refuse_the_facts_is_not_advertised(schema: JsonObject) -> None:
    assert govern(told_tool(output=schema)).listed.output_schema is None


def test_a_closed_output_schema_is_opened_for_the_facts_only() -> None:
    """MCP_FACTS.md 1.6: both SDKs' clients throw on an extra key, after the effect happened."""
    closed: JsonObject = {**OBJECT, "additionalProperties": False}
    listed = govern(told_tool(output=closed)).listed.output_schema
    assert listed is not None
    jsonschema.validate({"n": 1, "saga": {"id": "a"}}, listed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"n": 1, "other": 1}, listed)
    own: JsonObject = {"type": "object", "properties": {"saga": {"type": "integer"}}}
    moved = govern(told_tool(output=own))
    assert moved.facts_name == "saga__facts"
    assert set((moved.listed.output_schema or {})["properties"]) == {"saga", "saga__facts"}


def test_a_tool_named_like_a_control_tool_is_refused_when_the_server_is_built() -> None:
    with pytest.raises(ValueError, match="saga_abort"):
        scripted(Script(), told_tool("saga_abort"))
