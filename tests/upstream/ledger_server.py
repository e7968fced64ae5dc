"""A small MCP server over a file, as an upstream of the tests: it keeps what it is told, and fails as it is told.

Each call appends what it did to the file that LEDGER names, so that a test sees what became of the world, whoever has
died meanwhile. `mode` says how a call fails. Files beside that file say how the server itself does: `.down` (it ends at
once), `.fragile` (it dies when it is looked at), `.noise`, `.slow` (nothing is said while it is there), `.changed`
(another schema), `.go` (what hangs goes on), `.held` (a look waits).
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import anyio
import mcp_types as types
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

WORLD = Path(os.environ["LEDGER"])
WIRE = os.dup(1)
"""Stdout as it was given to us, for noise: the SDK takes the descriptor's number for itself."""

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

MODES = [
    "ok",
    "fail_before",
    "fail_richly",
    "fail_after",
    "hang_before",
    "hang_stoppably",
    "hang_after",
    "die_before",
    "die_after",
    "die_once",
    "protocol_error",
    "invalid_params",
    "invalid_params_after",
    "unknown_tool_after",
    "ask",
    "noise",
    "unfit",
    "surrogate",
    "report",
    "tick",
]


def switched(name: str) -> bool:
    return WORLD.with_suffix(f".{name}").exists()


def write(do: str, **what: object) -> None:
    where = {"where": os.environ["WHERE"]} if "WHERE" in os.environ else {}
    line = json.dumps({"do": do, "pid": os.getpid(), **where, **what}) + "\n"
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
    """Wait until the test says go, whoever has stopped waiting for the answer."""
    with anyio.CancelScope(shield=True):
        while not switched("go"):  # noqa: ASYNC110 - another process
            await anyio.sleep(0.01)


async def unless_stopped(tool: str, waits: Callable[[], bool]) -> None:
    """Wait for the test; who is told to stop meanwhile does."""
    try:
        while waits():  # noqa: ASYNC110 - another process
            await anyio.sleep(0.01)
    except anyio.get_cancelled_exc_class():
        write("stopped", tool=tool)
        raise


async def reported(ctx: Context, *, ticks: bool) -> None:
    """Tell how far the call has come, until the test says go."""
    if not ticks:
        await ctx.session.report_progress(1, 3, "begun")
        await gone_on()
        await ctx.session.report_progress(2.5)
        return
    for number in itertools.takewhile(lambda _: not switched("go"), itertools.count(1)):
        await ctx.session.report_progress(number)
        await anyio.sleep(0.02)


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
        name="grow",
        description="Have one tool more.",
        input_schema=_object([]),
    ),
    types.Tool(
        name="show",
        title="Show everything",
        description="Answer with content of every kind.",
        input_schema=_object([]),
        icons=[types.Icon(src="data:image/png;base64,AA==")],
        annotations=types.ToolAnnotations(title="Hinted", read_only_hint=True, open_world_hint=False),
        _meta={"example.org/tool": 1},
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


GROWN = types.Tool(name="grown", description="A tool that was not there before.", input_schema=_object([]))
BUS = InMemorySubscriptionBus()


def tools() -> list[types.Tool]:
    listed = [*TOOLS, *([GROWN] if switched("grown") else [])]
    if switched("changed"):
        other = _object(["entry"], entry={"type": "string"})
        listed = [tool.model_copy(update={"input_schema": other}) if tool.name == "remove" else tool for tool in listed]
    return listed


async def list_tools(_ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Two pages."""
    if params is not None and params.cursor == "more":
        return types.ListToolsResult(tools=tools()[2:])
    return types.ListToolsResult(tools=tools()[:2], next_cursor="more")


async def grow(ctx: Context) -> types.CallToolResult:
    WORLD.with_suffix(".grown").touch()
    await BUS.publish(ToolsListChanged())
    if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        await ctx.session.send_tool_list_changed()
    return _text("grown")


SHOWN = types.CallToolResult(
    content=[
        types.TextContent(text="one", annotations=types.Annotations(audience=["user"], priority=0.5), _meta={"a": 1}),
        types.ImageContent(data="AA==", mime_type="image/png"),
        types.AudioContent(data="AA==", mime_type="audio/wav"),
        types.ResourceLink(name="page", uri="https://example.org/page", description="a page", size=3),
        types.EmbeddedResource(
            resource=types.BlobResourceContents(uri="mem://blob", blob="AA==", mime_type="application/x")
        ),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="mem://text", text="two")),
    ],
    structured_content={"big": 2**63 - 1, "bigger": 2**70, "none": None, "tiny": 1e-300, "saga": "its own"},
    _meta={"example.org/answer": {"deep": [1, None]}},
)


REFUSED = types.CallToolResult(
    content=[types.TextContent(text="too many"), types.ImageContent(data="AA==", mime_type="image/png")],
    structured_content={"code": 429},
    _meta={"example.org/retry": 30},
    is_error=True,
)


async def call_tool(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    args = dict(params.arguments or {})
    mode = args.pop("mode", "ok")
    write("called", tool=params.name, args=args)
    if params.name == "look":
        await _looked_at()
    match mode:
        case "fail_before" | "fail_richly":
            return REFUSED if mode == "fail_richly" else _text("refused: nothing was done", is_error=True)
        case "hang_before":
            await gone_on()
        case "hang_stoppably":
            await unless_stopped(params.name, lambda: not switched("go"))
        case "die_before":
            die()
        case "protocol_error":
            raise MCPError(code=types.INTERNAL_ERROR, message="something broke")
        case "invalid_params":
            raise MCPError(code=types.INVALID_PARAMS, message="not like this")
        case "ask":
            return types.InputRequiredResult(request_state="asked")
        case "report" | "tick":
            await reported(ctx, ticks=mode == "tick")
        case "noise":
            os.write(WIRE, b"a line that is no message\n" + b"x" * 100_000 + b"\n")
        case _:
            pass
    if params.name == "grow":
        return await grow(ctx)
    return await _after(mode, _did(params.name, args))


async def _looked_at() -> None:
    if switched("fragile"):
        die()
    await unless_stopped("look", lambda: switched("held"))


async def _after(mode: str, result: types.CallToolResult) -> types.CallToolResult:
    """How a call ends that has had its effect."""
    match mode:
        case "fail_after":
            return _text("failed half-way", is_error=True)
        case "invalid_params_after":
            raise MCPError(code=types.INVALID_PARAMS, message="the answer is not valid")
        case "unknown_tool_after":
            raise MCPError(code=types.METHOD_NOT_FOUND, message="no such method over there")
        case "hang_after":
            await gone_on()
        case "die_after":
            die()
        case "die_once":
            if not switched("died"):
                WORLD.with_suffix(".died").touch()
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
        case "show":
            return SHOWN
        case "say":
            write("say", text=args["text"])
            return _text(args["text"])
        case _:
            return _text(json.dumps({"entries": entries()}))


def _text(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


def served() -> Server[Any]:
    return Server(
        "ledger", on_list_tools=list_tools, on_call_tool=call_tool, on_subscriptions_listen=ListenHandler(BUS)
    )


async def over_stdio() -> None:
    server = served()
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options(NotificationOptions(tools_changed=True)))


def over_http() -> None:
    """Serve at a free port, and say which on the wire."""
    with socket.create_server(("127.0.0.1", int(os.environ["LEDGER_PORT"]))) as listening:
        os.write(WIRE, b"%d\n" % listening.getsockname()[1])
        app = served().streamable_http_app(stateless_http=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])


if __name__ == "__main__":
    write("started")
    sys.stderr.write("the ledger has started\n")
    if switched("down"):
        sys.exit(3)
    while switched("slow"):
        time.sleep(0.02)
    if switched("noise"):
        os.write(WIRE, b"Welcome to the ledger!\n\n{}\n")
    if "LEDGER_PORT" in os.environ:
        over_http()
    else:
        anyio.run(over_stdio)
