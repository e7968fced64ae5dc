"""An MCP server of the older era, in lines of its own, as an upstream of the tests: it asks its client, and reports.

Without any SDK, so that it does what servers are told not to: it asks what the client never said it could answer.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]

TOOLS = [
    {"name": "ask", "inputSchema": {"type": "object", "properties": {"method": {"type": "string"}}}},
    {"name": "work", "inputSchema": {"type": "object", "properties": {"reports": {"type": "array"}}}},
]


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> Json:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    message: Json = json.loads(line)
    return message


def asked(method: str) -> str:
    """What the client says to a question."""
    send({"id": "question", "method": method, "params": {"message": "Really?", "requestedSchema": {"type": "object"}}})
    while (answer := receive()).get("id") != "question":
        pass
    return json.dumps(answer.get("error", answer.get("result")))


def called(params: Json) -> str:
    arguments = params["arguments"]
    if params["name"] == "ask":
        return asked(arguments.get("method", "roots/list"))
    token = params.get("_meta", {}).get("progressToken")
    for report in arguments["reports"] if token is not None else ():
        send({"method": "notifications/progress", "params": {"progressToken": token, **report}})
    return "done"


def answer(method: str, params: Json) -> Json:
    match method:
        case "initialize":
            info = {"name": "old", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return {"content": [{"type": "text", "text": called(params)}]}
        case _:
            return {}


while True:
    request = receive()
    if "id" not in request:
        continue
    if request["method"] == "server/discover":
        send({"id": request["id"], "error": {"code": -32601, "message": "not in this era"}})
    else:
        send({"id": request["id"], "result": answer(request["method"], request.get("params", {}))})
