"""Record what a server lists, for the test that holds its preset against it: `tests/checking/listed/NAME.json`.

python scripts/record_tools.py NAME COMMAND [ARGUMENT ...]

Of each tool what a call of it is judged by; no text for people. No tool is called: most servers list theirs with a
made-up token and without a network.
"""
# ruff: noqa: INP001 - scripts are no package

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import anyio
from mcp import Client, StdioServerParameters

FOLDER = Path(__file__).parent.parent / "tests" / "checking" / "listed"
_JUDGED = ("inputSchema", "outputSchema")
_PROSE = frozenset({"description", "title", "examples", "$comment"})
_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Under these the keys are names, which may be any word."""


async def listed(command: str, args: list[str]) -> dict[str, Any]:
    """Return the server's name, its version and its tools by name.

    Raises:
        TimeoutError: it did not answer within two minutes.
    """
    server = StdioServerParameters(command=command, args=args, env={**os.environ})
    tools: dict[str, Any] = {}
    with anyio.fail_after(120):
        async with Client(server) as client:
            cursor: str | None = None
            while True:
                page = await client.list_tools(cursor=cursor)
                for tool in page.tools:
                    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                    tools[tool.name] = {key: _without_prose(said[key]) for key in _JUDGED if key in said}
                cursor = page.next_cursor
                if not cursor:
                    break
            info = client.server_info
    return {"name": info.name if info else "", "version": info.version if info else "", "tools": tools}


def _without_prose(schema: object, *, names: bool = False) -> object:
    if isinstance(schema, list):
        return [_without_prose(each) for each in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, object]", schema)
    return {
        key: _without_prose(value, names=not names and key in _NAMES)
        for key, value in table.items()
        if names or key not in _PROSE
    }


def written(server: dict[str, Any]) -> str:
    """Return the file's text: a line for each tool, so that a new version's differences can be read."""
    tools = ",\n".join(f"  {json.dumps(name)}: {json.dumps(tool)}" for name, tool in sorted(server["tools"].items()))
    head = json.dumps({"name": server["name"], "version": server["version"]})[1:-1]
    return f'{{{head}, "tools": {{\n{tools}\n}}}}\n'


if __name__ == "__main__":
    preset, program, *arguments = sys.argv[1:]
    (FOLDER / f"{preset}.json").write_text(written(anyio.run(listed, program, arguments)), encoding="utf-8")
