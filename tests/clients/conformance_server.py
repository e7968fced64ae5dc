"""The product's server object over HTTP with the fixture tools that the conformance suite asks for by name.

The edge, the engine and the log are the real ones. The tools stand for those of upstream servers: they answer with
content blocks and have schemas that no Python tool has, and the edge has to hand both on as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import anyio
from tests.clients.http_server import serve

from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Kind
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.catalogue import ConfiguredCatalogue
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import (
    Arguments,
    CallContext,
    Catalogue,
    Landed,
    Missed,
    Outcome,
    ProbeVerdict,
    StepFacts,
    ToolAnswer,
)
from saga_mcp.tools.tool_listing import ToolListing

_TEXT: JsonObject = {"type": "text", "text": "This is a simple text response for testing."}
_IMAGE: JsonObject = {
    "type": "image",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
    "mimeType": "image/png",
}
_AUDIO: JsonObject = {"type": "audio", "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEA", "mimeType": "audio/wav"}
_RESOURCE: JsonObject = {
    "type": "resource",
    "resource": {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "An embedded resource."},
}
_CONTENT: Mapping[str, tuple[JsonObject, ...]] = {
    "test_simple_text": (_TEXT,),
    "test_image_content": (_IMAGE,),
    "test_audio_content": (_AUDIO,),
    "test_embedded_resource": (_RESOURCE,),
    "test_multiple_content_types": (_TEXT, _IMAGE, _RESOURCE),
    "json_schema_2020_12_tool": (_TEXT,),
    "test_custom_headers": (_TEXT,),
}
_NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}
_SCHEMAS: Mapping[str, JsonObject] = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_custom_headers": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
        "required": ["region", "query"],
    },
}


@dataclass(frozen=True, slots=True)
class Fixture:
    """A tool that only answers."""

    offered: str
    stoppable: bool = True

    @property
    def pair(self) -> Pair:
        return Pair(tool=f"conformance.{self.offered}", kind=Kind.READ_ONLY)

    @property
    def rules(self) -> AnswerRules:
        return AnswerRules()

    @property
    def listing(self) -> ToolListing:
        return ToolListing(description="For tests.", input_schema=_SCHEMAS.get(self.offered, _NO_ARGUMENTS))

    @property
    def reachable(self) -> bool:
        """It runs here."""
        return True

    async def reach(self, within_s: float) -> None:
        """It runs here."""
        del within_s

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        return Arguments(dict(arguments))

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        del args, context
        if self.offered == "test_error_handling":
            error = "This tool intentionally returns an error for testing"
            answer = ToolAnswer(content=({"type": "text", "text": error},), is_error=True)
            return Missed(answer=answer, effect=Effect.NONE, error=error)
        return Landed(answer=ToolAnswer(content=_CONTENT[self.offered]), result=None)

    def replay(self, result: JsonValue, kept: JsonValue = None) -> ToolAnswer:
        raise NotImplementedError(result)

    async def probe(self, step: StepFacts) -> ProbeVerdict:
        raise NotImplementedError(step)


def with_fixtures(_: Catalogue) -> Catalogue:
    return ConfiguredCatalogue([Fixture(name) for name in (*_CONTENT, "test_error_handling")], undoers={})


if __name__ == "__main__":
    anyio.run(serve, with_fixtures)
