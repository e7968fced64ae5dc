"""A person's folder with a client's config in it, and the command as it is run there."""

from __future__ import annotations

import io
import json
import os
import sys
import zlib
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
from mcp import Client, StdioServerParameters

from saga_mcp.cli import commands

STUB = Path(__file__).with_name("stub_server.py")
SLACK: dict[str, bool | None] = {
    "slack_list_channels": None,
    "slack_get_channel_history": None,
    "slack_get_thread_replies": None,
    "slack_get_users": None,
    "slack_get_user_profile": None,
    "slack_post_message": None,
    "slack_reply_to_thread": None,
    "slack_add_reaction": None,
}
"""The tools of a server for which there is a preset."""


@dataclass(frozen=True)
class Answer:
    """What the command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the command printed
        return json.loads(self.out)


@dataclass(frozen=True)
class Desk:
    """The folder; `home` is the person's."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / ".mcp.json"

    @property
    def config(self) -> Path:
        return self.folder / "saga.toml"

    @property
    def log(self) -> list[str]:
        log = self.folder / "stub.log"
        return log.read_text().splitlines() if log.exists() else []

    def server(self, name: str, tools: Mapping[str, object], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The entry of a stub server."""
        spec = {"name": name, "version": "1.0.0", "tools": tools, "log": str(self.folder / "stub.log"), **more}
        text = json.dumps(spec)
        told = self.folder.with_name(f"{self.folder.name}-told")  # beside the folder, of which nothing is ours
        told.mkdir(exist_ok=True)
        file = told / f"n{zlib.crc32(text.encode()) % 10_000}.json"
        file.write_text(text, encoding="utf-8")
        return {"command": sys.executable, "args": [str(STUB), str(file)]}

    def write(self, **servers: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"mcpServers": servers}, indent=4))

    @property
    def servers(self) -> dict[str, Any]:
        """The servers of the client, as its file has them now."""
        content: dict[str, dict[str, Any]] = json.loads(self.file.read_text())
        return content["mcpServers"]

    @property
    def environ(self) -> dict[str, str]:
        """Where a person's own things are."""
        return {"HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}

    def adopt(self, *arguments: str) -> Answer:
        return self.run("adopt", str(self.file), *arguments)

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Answer:
        """The command, in this process: starting one is most of the time that a test would take."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, {**self.environ, **(env or {})}), redirect_stdout(out), redirect_stderr(err):
            code = commands.run([*arguments])
        return Answer(code, out.getvalue(), err.getvalue())

    def call_once(self, tool: str, **arguments: object) -> None:
        """Call a tool through what the client starts now; its saga stays open."""
        entry = self.servers["saga"]
        env = {**os.environ, **self.environ, **entry.get("env", {})}
        server = StdioServerParameters(command=entry["command"], args=entry["args"], env=env, cwd=self.folder)

        async def call() -> None:
            with anyio.fail_after(50):
                async with Client(server) as client:
                    reply = await client.call_tool(tool, arguments)
                    assert not reply.is_error, reply.content

        anyio.run(call)
