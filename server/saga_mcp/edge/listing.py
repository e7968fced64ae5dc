"""How governed tools are listed, and how the saga's own arguments are told apart from a tool's.

At the edge because agents see a tool plus the saga facts, while the layers below see the tool alone. What is added is
decided once, when the server is built: the list is the same for every connection (DESIGN.md 5.3).
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import mcp_types as types

from saga_mcp.domain.values import JsonObject, JsonValue, Kind, PartAction
from saga_mcp.edge import descriptions, refusals
from saga_mcp.edge.clean import is_storable
from saga_mcp.edge.promise import Promise
from saga_mcp.engine.port import named_saga
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Catalogue, Tool
from saga_mcp.tools.tool_listing import ToolListing
from saga_mcp.tools.unsent import InvalidArguments

LONGEST_TEXT = 200
"""Of what an agent names or explains (S11.6)."""

FACTS_SCHEMA: JsonObject = {"type": "object"}
"""The `saga` object of a structured reply; short, because it stands in the schema of every governed tool."""

_NEAR = 0.7
_VERY_NEAR = 0.8
"""`saga` for `saga_id`, but not `usage_id`: a tool that takes any argument may have that."""
_MORE_THAN_A_PLAIN_OBJECT = frozenset(
    {
        "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "const", "enum", "patternProperties",
        "propertyNames", "maxProperties", "dependentSchemas", "unevaluatedProperties",
    }
)  # fmt: skip
"""Keywords beside which a further property could make a root schema unsatisfiable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArguments:
    """The arguments of a governed call, the saga's own apart."""

    tool: dict[str, JsonValue]
    saga_id: str | None = None
    step_key: str = ""


@dataclass(frozen=True, kw_only=True)
class Governed:
    """A governed tool as agents see it."""

    tool: Tool
    listing: ToolListing
    """What the tool said of itself when this was made; an upstream may say something else later."""
    listed: types.Tool
    id_name: str = ""
    """Name of the argument that holds the saga's id; empty for a read-only tool that is not audited."""
    key_name: str = ""
    """Name of the argument that holds the agent's name for the call; empty where it is not offered."""
    facts_name: str = "saga"
    """Where the saga facts go in a structured reply; a tool's own key of that name moves ours."""

    @property
    def governs(self) -> bool:
        """Whether its calls are steps."""
        return self.tool.pair.kind is not Kind.READ_ONLY

    @property
    def keeps_structured(self) -> bool:
        """Whether an object as structured result can be passed on: its schema is advertised, or it never had one."""
        return self.listed.output_schema is not None or self.listing.output_schema is None

    @cached_property
    def promise(self) -> Promise | None:
        """What clients hold a result to, or None where the tool promises nothing."""
        schema = self.listed.output_schema
        return None if schema is None else Promise(schema)

    def split(self, arguments: Mapping[str, JsonValue]) -> CallArguments:
        """Tell the saga's own arguments from the tool's.

        Raises:
            InvalidArguments: an argument is unknown, or one of the saga's own is no text of sensible length.
            SagaIdMistyped: the saga id cannot be one.
        """
        own = {self.id_name, self.key_name} - {""}
        rest = {name: value for name, value in arguments.items() if name not in own}
        if not self.id_name and "saga_id" not in _properties(self.listing.input_schema):
            rest.pop("saga_id", None)  # the instructions say "every call": a read has no use for it, but it is no typo
        problems = tuple(self._unknown(rest))
        if problems:
            raise InvalidArguments(problems)
        return CallArguments(
            tool=rest,
            saga_id=read_saga_id(arguments[self.id_name], self.id_name) if self.id_name in arguments else None,
            step_key=_text(arguments[self.key_name], self.key_name) if self.key_name in arguments else "",
        )

    def _unknown(self, rest: Mapping[str, JsonValue]) -> list[str]:
        """Problems with names: one that the schema does not know, or that looks like a misspelt one of ours."""
        schema = self.listing.input_schema
        known = _properties(schema)
        ours = [name for name in (self.id_name, self.key_name) if name]
        strangers = [name for name in rest if name not in known]
        if is_open(schema):
            strangers = [name for name in strangers if nearest(name, ours, at_least=_VERY_NEAR)]
        return [refusals.unknown_argument(name, nearest(name, [*ours, *known])) for name in strangers]


def govern(tool: Tool, *, audit_reads: bool = False) -> Governed:
    """Return `tool` as agents see it.

    Args:
        tool: what is called.
        audit_reads: a read-only tool gains `saga_id` too, so that its calls are recorded there (S11.2).
    """
    listing, kind = tool.listing, tool.pair.kind
    governs = kind is not Kind.READ_ONLY
    known = _properties(listing.input_schema)
    id_name = _free("saga_id", known) if governs or audit_reads else ""
    key_name = _free("step_key", known) if governs and listing.takes_step_key else ""
    facts_name = _free("saga", _properties(listing.output_schema or {}), moved="saga__facts")
    added = {id_name: descriptions.SAGA_ID, key_name: descriptions.STEP_KEY}
    pair = tool.pair
    undo = [entry.action for entry in pair.undo]
    line = descriptions.kind_line(kind, undo, pair.not_restored, approval=pair.approval)
    listed = types.Tool(
        name=tool.offered,
        title=listing.title or None,
        description="\n".join(part for part in (listing.description.strip(), line) if part),
        input_schema=_with_arguments(listing.input_schema, added),
        output_schema=_output_schema(listing.output_schema, facts_name if governs else ""),
        annotations=annotations(tool.pair, open_world=listing.open_world),
        icons=[types.Icon.model_validate(icon) for icon in listing.icons] or None,
        _meta=listing.meta,
    )
    return Governed(
        tool=tool, listing=listing, listed=listed, id_name=id_name, key_name=key_name, facts_name=facts_name
    )


class GovernedTools(Mapping[str, Governed]):
    """The tools of a catalogue as agents see them, by name; one that has changed is looked at anew.

    Args:
        catalogue: the tools.
        audit_reads: whether calls of read-only tools that name a saga are noted.
    """

    def __init__(self, catalogue: Catalogue, *, audit_reads: bool) -> None:
        self._catalogue = catalogue
        self._audit_reads = audit_reads
        self._made: dict[str, Governed] = {}

    def __getitem__(self, offered: str) -> Governed:
        tool = self._catalogue.offered[offered]
        made = self._made.get(offered)
        if made is None or made.listing is not tool.listing:
            made = self._made[offered] = govern(tool, audit_reads=self._audit_reads)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._catalogue.offered)

    def __len__(self) -> int:
        return len(self._catalogue.offered)


def annotations(pair: Pair, *, open_world: bool = True) -> types.ToolAnnotations:
    """What clients may assume of a tool: non-destructive only where the server can really undo it."""
    read_only = pair.kind is Kind.READ_ONLY
    undoable = pair.kind is Kind.COMPENSABLE and bool(pair.undo) and all(_undoes(entry.action) for entry in pair.undo)
    return types.ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=not (read_only or undoable),
        idempotent_hint=read_only or pair.idempotent,
        open_world_hint=open_world,
    )


def _undoes(action: PartAction) -> bool:
    return action in {PartAction.CALL, PartAction.NOTHING}


def read_saga_id(value: JsonValue, name: str = "saga_id") -> str:
    """Return a saga id as the log stores it.

    Raises:
        InvalidArguments: it is no text.
        SagaIdMistyped: its check character does not fit, or it is empty.
    """
    if not isinstance(value, str):
        raise InvalidArguments((f'"{name}" must be the text of an id; leave it out where there is none',))
    return named_saga(value)


def _text(value: JsonValue, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_TEXT:
        raise InvalidArguments((f'"{name}" must be a text of 1 to {LONGEST_TEXT} characters',))
    if not is_storable(value):
        raise InvalidArguments((f'"{name}" must hold no NUL and no half of a surrogate pair',))
    return value


def nearest(name: str, known: list[str], *, at_least: float = _NEAR) -> str:
    """Return the known name that was probably meant, or nothing."""
    plain = {_plain(other): other for other in known}
    found = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=at_least)
    return plain[found[0]] if found else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _free(name: str, taken: Mapping[str, Any] | list[str], *, moved: str = "") -> str:
    return name if name not in taken else moved or f"saga__{name}"


def _properties(schema: JsonObject) -> list[str]:
    """Names of the properties a schema's root declares."""
    declared = schema.get("properties")
    return list(declared) if isinstance(declared, dict) else []


def is_open(schema: JsonObject) -> bool:
    """Whether a schema itself invites properties it does not name, or says so in ways only its validator reads."""
    extra = schema.get("additionalProperties")
    invites = extra is True or (isinstance(extra, dict) and extra != {"not": {}})
    nameless = "properties" not in schema and extra is None
    return invites or nameless or any(key in schema for key in _MORE_THAN_A_PLAIN_OBJECT)


def _with_arguments(schema: JsonObject, added: Mapping[str, str]) -> dict[str, Any]:
    """Return the input schema with our optional texts added; unknown arguments are refused, and it says so."""
    advertised: dict[str, Any] = {"type": "object", **schema}
    ours = {name: {"type": "string", "description": text} for name, text in added.items() if name}
    if ours:
        advertised["properties"] = {**cast("dict[str, Any]", schema.get("properties", {})), **ours}
    if not is_open(schema):
        advertised["additionalProperties"] = False
    return advertised


def _output_schema(schema: JsonObject | None, facts_name: str) -> dict[str, Any] | None:
    """Return the output schema to advertise, or None where the facts could not be added to every reply (S11.1)."""
    if schema is None or schema.get("type") != "object":
        return None
    if not facts_name:
        return dict(schema)
    if any(key in schema for key in _MORE_THAN_A_PLAIN_OBJECT):
        return None
    declared = cast("dict[str, Any]", schema.get("properties", {}))
    return {**schema, "properties": {**declared, facts_name: FACTS_SCHEMA}}
