"""An MCP server that is whatever it is told: a name, a version, tools. It writes down when it is started and called.

Without the SDK, because it is started often. Its one argument is a JSON object, or a file with one: `name`, `version`,
`log` (a file), `tools` (name -> whether it says that it only reads, null where it says nothing; or its input schema; or
all that it lists of the tool), `gives` (tool -> the text of its answer), `say` (on stderr), `exit` (at once),
`together` (how many have to be started before this one answers). Instead of `name`, `version` and `tools`: `list`, a
file with them. Instead of `gives`: `answers`, a file with a list of whole results for each tool, from which each call
takes the first, and leaves the last.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def spec() -> dict[str, Any]:
    told = sys.argv[1] if sys.argv[1].startswith("{") else Path(sys.argv[1]).read_text(encoding="utf-8")
    given: dict[str, Any] = json.loads(told)
    return {**given, **json.loads(Path(given["list"]).read_text(encoding="utf-8"))} if "list" in given else given


SPEC = spec()


def note(line: str) -> None:
    with Path(SPEC["log"]).open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")


def tool(name: str, said: dict[str, Any] | bool | None) -> dict[str, Any]:  # noqa: FBT001 - as the argument has it
    if isinstance(said, dict) and "inputSchema" in said:
        return {"name": name, **said}
    hints = {"annotations": {"readOnlyHint": said}} if isinstance(said, bool) else {}
    return {"name": name, "inputSchema": said if isinstance(said, dict) else {"type": "object"}, **hints}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        server = {"name": SPEC["name"], "version": SPEC["version"]}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [tool(name, said) for name, said in SPEC["tools"].items()]}
    if method == "tools/call":
        note(f"called {params['name']}")
        if "answers" in SPEC:
            return next_of(Path(SPEC["answers"]), params)
        text = SPEC.get("gives", {}).get(params["name"], '{"ok": true}')
        return {"content": [{"type": "text", "text": text}]}
    return None


def next_of(file: Path, params: dict[str, Any]) -> dict[str, Any]:
    note(json.dumps({"tool": params["name"], "args": params.get("arguments", {})}))
    answers: dict[str, list[dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    first, *others = answers[params["name"]]
    file.write_text(json.dumps({**answers, params["name"]: others or [first]}), encoding="utf-8")
    return first


def started() -> int:
    return Path(SPEC["log"]).read_text(encoding="utf-8").count("started")


def main() -> None:
    while started() < SPEC.get("together", 0):
        time.sleep(0.05)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params", {}))
        said = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
        sys.stdout.flush()


note(f"started {os.environ.get('SLACK_BOT_TOKEN', '')}".strip())
if "say" in SPEC:
    sys.stderr.write(f"{SPEC['say']}\n")
if "exit" in SPEC:
    sys.exit(SPEC["exit"])
main()
