"""A toy server in its own process: prints wherever it can, and serves a few tools over the real stdio transport.

Arguments: a scratch directory, in which `drained` tells that the drain ran, and with how many seconds.
"""

from saga_mcp.edge.stdout import take_over_stdout

wire = take_over_stdout()

print("POLLUTION at import")  # noqa: T201 - polluting is this program's job

# ruff: noqa: E402 - the wire is taken before anything else is imported, as in the product
import atexit
import ctypes
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from saga_mcp.edge.logging import configure_logging
from saga_mcp.edge.stdio import serve_stdio

scratch = Path(sys.argv[1])
work_done = anyio.Event()
drain_s = 0.0
Arguments = dict[str, Any]


def note(name: str, text: str = "") -> None:
    (scratch / name).write_text(text, encoding="utf-8")


async def pollute(_arguments: Arguments) -> object:
    print("POLLUTION from a tool")  # noqa: T201 - see above
    os.write(1, b"POLLUTION from os.write\n")
    sys.__stdout__.write("POLLUTION from sys.__stdout__\n")  # type: ignore[union-attr] # never None here
    ctypes.CDLL(None).puts(b"POLLUTION from C, which buffers until exit")
    thread = threading.Thread(target=print, args=("POLLUTION from a thread",))
    thread.start()
    thread.join()
    child = [sys.executable, "-c", "import sys; print('POLLUTION from a child', repr(sys.stdin.read()))"]
    subprocess.run(child, check=True)  # noqa: ASYNC221 - nothing else has to run meanwhile
    if (pid := os.fork()) == 0:
        print("POLLUTION from a fork", flush=True)  # noqa: T201 - see above
        os._exit(0)
    os.waitpid(pid, 0)  # noqa: ASYNC222 - the child has one line to print
    return "polluted"


async def echo(arguments: Arguments) -> object:
    return arguments["text"]


async def limit_sockets(_arguments: Arguments) -> object:
    socket.setdefaulttimeout(10)
    return "limited"


async def surrogate(_arguments: Arguments) -> object:
    return ["half \ud83d, whole \ud83d\ude00", math.nan]


async def fail_badly(_arguments: Arguments) -> NoReturn:
    raise ValueError("half \ud83d")


async def wait_for_ever(_arguments: Arguments) -> object:
    try:
        await anyio.Event().wait()
    finally:
        note("cancelled")
    return "never"


async def wait_for_drain(_arguments: Arguments) -> object:
    await work_done.wait()
    await anyio.sleep(0.05)  # a reply is not ready in the very tick in which the work is done
    return "ready in time"


async def stick_in_a_thread(_arguments: Arguments) -> object:
    await anyio.to_thread.run_sync(time.sleep, 3600, abandon_on_cancel=True)
    return "never"


async def block_the_loop(_arguments: Arguments) -> object:
    print("blocking", file=sys.stderr, flush=True)  # noqa: T201 - the test waits for it
    time.sleep(3600)  # noqa: ASYNC251 - what a badly written tool does
    return "never"


async def drain_slowly(_arguments: Arguments) -> object:
    global drain_s  # noqa: PLW0603 - a toy
    drain_s = 3600.0
    return "ok"


async def fail_the_drain(_arguments: Arguments) -> object:
    global drain_s  # noqa: PLW0603 - a toy
    drain_s = -1.0
    return "ok"


Tool = Callable[[Arguments], Awaitable[object]]
tools: dict[str, Tool] = {
    tool.__name__: tool
    for tool in (
        pollute,
        echo,
        limit_sockets,
        surrogate,
        fail_badly,
        wait_for_ever,
        wait_for_drain,
        stick_in_a_thread,
        block_the_loop,
        drain_slowly,
        fail_the_drain,
    )
}


async def list_tools(_ctx: ServerRequestContext[Any, Any], _params: object) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in tools])


async def call_tool(ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    value = await tools[params.name](params.arguments or {})
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=str(value))],
        structured_content={"value": value, "revision": ctx.protocol_version},
    )


async def drain(grace_s: float) -> None:
    with (scratch / "drained").open("a", encoding="utf-8") as file:
        file.write(f"{grace_s}\n")
    work_done.set()
    print("draining", file=sys.stderr, flush=True)  # noqa: T201 - tests wait for it
    if drain_s < 0:
        raise RuntimeError("the drain failed")
    await anyio.sleep(drain_s)


async def main() -> None:
    server: Server[Any] = Server(
        "toy",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
    )
    await serve_stdio(server, wire, drain=drain)
    note("returned")


configure_logging("debug", json=True, stream=sys.stderr)
atexit.register(print, "POLLUTION at exit")
anyio.run(main)
