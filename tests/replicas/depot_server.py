"""DEPOT: an upstream MCP server over stdio that works on LEDGER's world, with lines of the same kind.

In lines of its own and without the SDK (that one is the upstream of tests/upstream): it is killed and started again all
the time, and the imports would be most of what a schedule costs. While `LEDGER` + `.down` is there it ends at once.
Calls overlap, each in a thread. `mode` and `LEDGER` + `.plan` say what a call does, as in LEDGER.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

Json = dict[str, Any]

WORLD = os.environ["LEDGER"]
TEXT: Json = {"type": "string"}
BY_KEY: Json = {"key": TEXT}
FORWARD: Json = {"key": TEXT, "item": TEXT, "mode": {"type": "string", "default": "ok"}}
UNDO: Json = {"key": TEXT, "item": TEXT, "undo_key": TEXT}
TOOLS: dict[str, tuple[str, Json]] = {
    "store": ("Store an item.", FORWARD),
    "fetch": ("Take a stored item out again.", UNDO),
    "ship": ("Ship an item.", FORWARD),
    "recall": ("Call a shipped item back.", UNDO),
    "find": ("Tell whether something was shipped under a key.", BY_KEY),
}
_wire = threading.Lock()


class Failed(Exception):
    """An answer that says that the call went wrong."""


def send(message: Json) -> None:
    with _wire:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def lines() -> list[Json]:
    try:
        with open(WORLD, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes longer to import than all else
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def there(name: str) -> bool:
    return os.path.exists(f"{WORLD}.{name}")  # noqa: PTH110 - see above


def mode_of(tool: str, mode: str) -> str:
    try:
        with open(f"{WORLD}.plan", encoding="utf-8") as file:  # noqa: PTH123 - see above
            plan = json.load(file).get(tool, [])
    except FileNotFoundError:
        return mode
    sent = sum(line["event"] == "sent" and line["tool"] == tool for line in lines())
    return str(plan[min(sent, len(plan) - 1)]) if plan else mode


def write(event: str, tool: str, args: Json, mode: str) -> None:
    of_call = {"key": args["key"], "undo_key": args.get("undo_key", ""), "args": {"item": args["item"]}}
    line = {"event": event, "tool": tool, **of_call, "pid": os.getpid(), "mode": mode}
    with open(WORLD, "a", encoding="utf-8") as file:  # noqa: PTH123 - see above
        file.write(json.dumps(line) + "\n")


def act(tool: str, args: Json) -> None:
    """One call, from before its effect to after it."""
    mode = mode_of(tool, args.get("mode", "ok"))
    write("sent", tool, args, mode)
    if mode == "err_before":
        raise Failed("planned: nothing was done")
    if mode == "fail_before":
        raise Failed("planned: failed before the effect")
    if mode == "die_before":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode.replace(".", "", 1).isdigit():
        time.sleep(float(mode))
    while mode == "hang_before" and not there("go"):
        time.sleep(0.005)
    write("did", tool, args, mode)
    while mode == "hang_after" and not there("go"):
        time.sleep(0.005)
    if mode == "err_after":
        raise Failed("planned: failed after the effect")
    if mode == "die_after":
        os.kill(os.getpid(), signal.SIGKILL)


def found(key: str) -> bool:
    return any(line["event"] == "did" and line["tool"] == "ship" and line["key"] == key for line in lines())


def called(tool: str, args: Json) -> Json:
    try:
        if tool == "find":
            said: Json = {"found": found(args["key"])}
        else:
            act(tool, args)
            said = {"item": args["item"]}
    except Failed as failed:
        return {"content": [{"type": "text", "text": str(failed)}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(said)}], "structuredContent": said}


def listed() -> list[Json]:
    return [
        {
            "name": name,
            "description": says,
            "inputSchema": {
                "type": "object",
                "properties": takes,
                "required": [each for each in takes if each != "mode"],
                "additionalProperties": False,
            },
        }
        for name, (says, takes) in TOOLS.items()
    ]


def answer(request: Json) -> None:
    params = request.get("params", {})
    match request["method"]:
        case "server/discover":
            send({"id": request["id"], "error": {"code": -32601, "message": "not in this era"}})
            return
        case "initialize":
            info = {"name": "depot", "version": "1"}
            result: Json = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": listed()}
        case "tools/call":
            result = called(params["name"], params["arguments"])
        case _:
            result = {}
    send({"id": request["id"], "result": result})


if __name__ == "__main__":
    if there("down"):
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
