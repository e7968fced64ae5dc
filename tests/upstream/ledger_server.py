"""A small MCP server over a file, as an upstream of the tests: it keeps what it is told, and fails as it is told.

Each call appends what it did to the file that LEDGER names, so that a test sees what became of the world, whoever has
died meanwhile. `mode` says how a call fails; LEDGER_START how the server itself does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

WORLD = Path(os.environ["LEDGER"])
START = os.environ.get("LEDGER_START", "")
WIRE = os.dup(1)
"""Stdout as it was given to us, for noise: the SDK takes the descriptor's number for itself."""

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

MODES = [
    "ok",
    "fail_before",
    "fail_after",
    "hang_before",
    "hang_after",
    "die_before",
    "die_after",
    "protocol_error",
    "invalid_params",
    "noise",
    "unfit",
    "surrogate",
]


def write(do: str, **what: object) -> None:
    line = json.dumps({"do": do, "pid": os.getpid(), **what}) + "\n"
    with WORLD.open("a", encoding="utf-8") as file:
        file.write(line)


def read() -> list[Json]:
    return [json.loads(line) for line in WORLD.read_text(encoding="utf-8").splitlines()] if WORLD.exists() else []


def entries() -> list[Json]:
    left: dict[int, Json] = {}
    for line in read():
        if line["do"] == "add":
            left[line["id"]] = {"id": line["id"], "item": line["item"]}
        elif line["do"] == "remove":
            left.pop(line["id"], None)
    return list(left.values())


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def gone_on() -> None:
    """Wait until the test says go."""
    while not WORLD.with_suffix(".go").exists():  # noqa: ASYNC110 - another process
        await anyio.sleep(0.01)


def _object(required: list[str], **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_MODE: Json = {"type": "string", "enum": MODES, "default": "ok"}
ADDED = _object(["id", "item"], id={"type": "integer"}, item={"type": "string"})
TOOLS = [
    types.Tool(
        name="add",
        title="Add an entry",
        description="Add an entry to the ledger.",
        input_schema=_object(
            ["item"],
            item={"type": "string"},
            id={"type": "integer"},
            details={"type": "object"},
            size={"type": "integer", "description": "of a note in the answer, in bytes"},
            mode=_MODE,
        ),
        output_schema={**ADDED, "additionalProperties": True},
    ),
    types.Tool(
        name="remove",
        description="Remove an entry.",
        input_schema=_object(["id"], id={"type": "integer"}, mode=_MODE),
    ),
    types.Tool(
        name="say",
        description="Write a line, and answer in text only.",
        input_schema=_object(["text"], text={"type": "string"}, mode=_MODE),
    ),
    types.Tool(
        name="look",
        description="List the entries.",
        input_schema=_object([]),
        annotations=types.ToolAnnotations(read_only_hint=True),
    ),
]


async def list_tools(_ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Two pages."""
    second = params is not None and params.cursor == "more"
    return types.ListToolsResult(tools=TOOLS[2:] if second else TOOLS[:2], next_cursor=None if second else "more")


async def call_tool(_ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    args = dict(params.arguments or {})
    mode = args.pop("mode", "ok")
    write("called", tool=params.name, args=args)
    match mode:
        case "fail_before":
            return _text("refused: nothing was done", is_error=True)
        case "hang_before":
            await gone_on()
        case "die_before":
            die()
        case "protocol_error":
            raise MCPError(code=types.INTERNAL_ERROR, message="something broke")
        case "invalid_params":
            raise MCPError(code=types.INVALID_PARAMS, message="not like this")
        case "noise":
            os.write(WIRE, b"a line that is no message\n" + b"x" * 100_000 + b"\n")
        case _:
            pass
    result = _did(params.name, args)
    match mode:
        case "fail_after":
            return _text("failed half-way", is_error=True)
        case "hang_after":
            await gone_on()
        case "die_after":
            die()
        case "unfit":
            return types.CallToolResult(content=[], structured_content={"id": "no integer"})
        case _:
            pass
    return result


def _did(tool: str, args: Json) -> types.CallToolResult:
    match tool:
        case "add":
            entry = {"id": args.get("id", len(read())), "item": args["item"]}
            write("add", **entry, details=args.get("details"))
            note = {"note": "n" * args["size"]} if "size" in args else {}
            return types.CallToolResult(
                content=[types.TextContent(text=f"added {entry['item']}")], structured_content={**entry, **note}
            )
        case "remove":
            write("remove", id=args["id"])
            return _text("removed")
        case "say":
            write("say", text=args["text"])
            return _text(args["text"])
        case _:
            return _text(json.dumps({"entries": entries()}))


def _text(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


async def main() -> None:
    server = Server("ledger", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options(NotificationOptions(tools_changed=True)))


if __name__ == "__main__":
    write("started")
    sys.stderr.write("the ledger has started\n")
    if START == "die":
        sys.exit(3)
    if START == "noise":
        os.write(WIRE, b"Welcome to the ledger!\n\n{}\n")
    anyio.run(main)
