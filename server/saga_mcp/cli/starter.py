"""What `init` writes, and what it tells people to do next. Pure but for the look at where this command is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from saga_mcp.domain.values import JsonObject

TOOLS = '''\
"""Tools for an agent, each with what undoes it.

Try it: every note is a file in the folder `notes` beside this one, and an abort takes it away again.
"""

from pathlib import Path

from saga_tools import Call, NoEffect, ToolRegistry, Undo

NOTES = Path(__file__).parent / "notes"

registry = ToolRegistry()


@registry.tool
def add_note(title: str, text: str, call: Call) -> dict[str, str]:
    """Write a note."""
    if not title.replace(" ", "").isalnum():
        raise NoEffect("a title is made of letters, digits and spaces")
    NOTES.mkdir(exist_ok=True)
    note = NOTES / f"{title}.txt"
    if note.exists() and not note.read_text(encoding="utf-8").endswith(call.key):
        raise NoEffect(f"there is a note {title!r} already")
    # The key names this call: a repeated one finds its own note, and the undo takes away no other.
    note.write_text(f"{text}\\n\\n{call.key}", encoding="utf-8")
    return {"file": note.name}


@registry.undoes(add_note)
def remove_note(title: str, undo: Undo[dict[str, str]]) -> None:
    """Take a note away; harmless if it was never written."""
    note = NOTES / f"{title}.txt"
    if note.exists() and note.read_text(encoding="utf-8").endswith(undo.call_key):
        note.unlink()


@registry.tool(kind="read_only")
def list_notes() -> list[str]:
    """List the titles of all notes."""
    return sorted(note.stem for note in NOTES.glob("*.txt"))
'''

_CONFIG = """\
# What an agent may do here, and what undoes it. `saga-mcp check` tells whether it is right.

[saga]
name = {name}            # of these sagas' log; keep it when you move this folder

[python.notes]
path = "tools.py:registry"
"""


def config_text(realm: str) -> str:
    """The starter config."""
    return _CONFIG.format(name=json.dumps(realm))


def realm_for(folder: str, unique: str) -> str:
    """A name for the sagas of a folder that no other folder of this user has."""
    plain = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-")[:40] or "sagas"
    return f"{plain}-{unique}"


def own_command(invoked: str) -> list[str]:
    """How a client starts this very installation: absolute, because clients have another PATH."""
    found = shutil.which(invoked)
    if found is not None and Path(found).stem == "saga-mcp":
        return [str(Path(found).absolute())]
    beside = shutil.which("saga-mcp", path=str(Path(sys.executable).parent))
    if beside is not None:
        return [str(Path(beside).absolute())]
    return [sys.executable, "-P", "-m", "saga_mcp"]


def passing(prefix: Path) -> str | None:
    """What to say of an installation that will not last: `uvx` and `pipx run` keep theirs in caches (CACHEDIR.TAG)."""
    if not any((folder / "CACHEDIR.TAG").exists() for folder in prefix.parents):
        return None
    return (
        "This saga-mcp stands in a cache, which is emptied from time to time. Before you give its path to a client, "
        "install it to stay: `uv tool install` or `pipx install` where you said `uvx` or `pipx run`."
    )


def command_line(parts: Iterable[str], platform: str = sys.platform) -> str:
    """A command as a person types it."""
    return subprocess.list2cmdline(parts) if platform == "win32" else shlex.join(parts)


def client_config(command: list[str], config: Path) -> JsonObject:
    """The entry for Claude Desktop and clients like it."""
    program, *arguments = command
    return {"mcpServers": {"saga": {"command": program, "args": [*arguments, "serve", "--config", str(config)]}}}


def next_steps(command: list[str], config: Path, tools: Path) -> list[str]:
    """What a person does now."""
    written = json.dumps(client_config(command, config), indent=2)
    return [
        f"Wrote {config}",
        f"Wrote {tools}",
        "",
        "Next:",
        f"1. {command_line([*command, 'check', '--config', str(config)])}",
        "2. Put this into the config of your client (Claude Desktop: Settings > Developer > Edit Config), restart it:",
        "",
        written,
        "",
        f"   Claude Code: claude mcp add saga -- {command_line([*command, 'serve', '--config', str(config)])}",
        '   Cursor: the same in .cursor/mcp.json. VS Code: in .vscode/mcp.json, with "servers" for "mcpServers".',
        "3. Ask the agent for two notes and then to undo everything. Then look:",
        f"   {command_line([*command, 'list', '--config', str(config)])}",
    ]
