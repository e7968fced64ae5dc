"""What the tests of the examples have in common: the world in its file, and an example served as users serve it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
from mcp import Client, StdioServerParameters

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = Path(sys.executable).with_name("saga-mcp")
BOUND_S = 30


@dataclass(frozen=True)
class Example:
    """One example, with a world and a log of the test's own."""

    name: str
    folder: Path

    @property
    def config(self) -> Path:
        return EXAMPLES / self.name / "saga.toml"

    @property
    def env(self) -> dict[str, str]:
        return {f"{self.name.upper()}_WORLD": str(self.folder / "world.db"), "XDG_DATA_HOME": str(self.folder)}

    def ask(self, query: str) -> list[tuple[object, ...]]:
        """Look at the world with nothing but SQLite."""
        with closing(sqlite3.connect(self.folder / "world.db")) as connection:
            return connection.execute(query).fetchall()

    def change(self, statement: str) -> None:
        """Do what somebody else in the world does."""
        with closing(sqlite3.connect(self.folder / "world.db")) as connection, connection:
            connection.execute(statement)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[Client]:
        """Serve it over real stdio, as a client's config would."""
        server = StdioServerParameters(
            command=str(COMMAND), args=["serve", "--config", str(self.config)], env={**os.environ, **self.env}
        )
        with anyio.fail_after(BOUND_S):
            async with Client(server) as client:
                yield client

    def run(self, *arguments: str) -> str:
        """Run a command of the product, and return what it printed."""
        done = subprocess.run(
            [COMMAND, *arguments, "--config", self.config],
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
            env={**os.environ, **self.env},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def events(self, saga_id: str) -> list[str]:
        """The audit trail: each event with the tool it is about."""
        shown: dict[str, Any] = json.loads(self.run("show", saga_id, "--timeline", "--json"))
        rows = cast("list[dict[str, str]]", shown["timeline"])
        return [f"{row['event']} {row.get('tool', '').rpartition('.')[2]}".strip() for row in rows]


def saga_of(reply: Any) -> dict[str, Any]:  # noqa: ANN401 - any reply of the SDK has it
    """The saga facts of a reply."""
    return cast("dict[str, Any]", reply.meta["saga"])


def last_text(reply: Any) -> str:  # noqa: ANN401 - see above
    """What the model reads last."""
    return cast("str", reply.content[-1].text)
