"""The config file of an MCP client: which servers it names, and the same file with ours in their place.

Pure but for reading: what is written, and when, is decided elsewhere. Every client has its own shape; whatever a file
holds besides servers stays as it is.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

from saga_mcp.cli.adopting.commented import has_comments, plain
from saga_mcp.domain.values import JsonObject, JsonValue

Place: TypeAlias = tuple[str, ...]
"""Keys from the root of the file to the table of servers."""

OURS = "saga"
"""The name of our entry."""

_LONE = re.compile("[\ud800-\udfff]")
"""Half a character: JSON can write it as an escape only."""

_CARRIED = frozenset({"type", "command", "args", "env", "cwd", "url", "headers"})
_SAID_ONCE = frozenset({"disabled", "autoApprove", "alwaysAllow", "timeout", "description", "gallery", "version"})
"""Keys that concern the client and not how a server is reached; they end with the entry."""


class ClientFileUnusable(Exception):
    """Nothing can be done with the file; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One server of the file, as it is written there."""

    name: str
    written: JsonObject

    @property
    def unusable(self) -> str:
        """Why it has to stay where it is; empty where it can be adopted."""
        if self.is_ours:
            return "it is saga-mcp itself"
        if self.written.get("disabled") is True:
            return "it is switched off"
        if self.written.get("type") == "sse" or str(self.written.get("url", "")).endswith("/sse"):
            return "it speaks the old SSE transport"
        if bool(self.command) == bool(self.url):
            return "it has neither a command nor a url" if not self.command else "it has a command and a url"
        if unknown := sorted(self.written.keys() - _CARRIED - _SAID_ONCE):
            return f"it says {', '.join(unknown)}, which saga.toml has no word for"
        if not self._is_well_formed:
            return "its args, env or headers are not texts"
        if any("\0" in text or _LONE.search(text) for text in _all_texts(self.written)):
            return "it holds half a character or U+0000, which no program can be given"
        return ""

    @property
    def is_ours(self) -> bool:
        """Whether it starts this program."""
        words = [self.command, *self.args]
        return "serve" in words and any(re.search(r"saga[-_]mcp", word) for word in words)

    @property
    def command(self) -> str:
        """What is started; empty where it is reached by URL."""
        return _text(self.written.get("command"))

    @property
    def args(self) -> list[str]:
        """The arguments of the command."""
        return _texts(self.written.get("args"))

    @property
    def env(self) -> dict[str, str]:
        """What its environment gets."""
        return _text_map(self.written.get("env"))

    @property
    def cwd(self) -> str:
        """Where it runs; empty where the file does not say."""
        return _text(self.written.get("cwd"))

    @property
    def url(self) -> str:
        """Where it answers; empty where it is started."""
        return _text(self.written.get("url"))

    @property
    def headers(self) -> dict[str, str]:
        """What each request carries."""
        return _text_map(self.written.get("headers"))

    @property
    def _is_well_formed(self) -> bool:
        args, maps = self.written.get("args", []), (self.written.get("env", {}), self.written.get("headers", {}))
        return (
            isinstance(args, list)
            and all(isinstance(each, str) for each in args)
            and all(isinstance(each, dict) for each in maps)
            and isinstance(self.written.get("cwd", ""), str)
        )


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file with servers in it."""

    path: Path
    """As it was named: a symbolic link decides nothing but which file is written."""
    client: str
    """For people: `Claude Desktop`."""
    place: Place
    raw: bytes = field(repr=False)
    content: JsonObject = field(repr=False)

    @property
    def for_people(self) -> str:
        """What it is and where."""
        return f"the {self.client} config {self.path}"

    @property
    def has_comments(self) -> bool:
        """Whether it cannot be written without losing what people wrote for people."""
        return has_comments(self.raw.decode("utf-8-sig"))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its servers, in order."""
        return tuple(Entry(name, cast("JsonObject", each)) for name, each in _table(self.content, self.place).items())

    @property
    def folder(self) -> Path:
        """Where relative paths in it lead to: the project's folder, else the file's own."""
        if self.place[0] == "projects":
            return Path(self.place[1])
        hidden = self.path.parent.name in {".cursor", ".vscode"}
        return self.path.parent.parent if hidden else self.path.parent

    @property
    def is_of_a_project(self) -> bool:
        """Whether the servers are a project's; else they are a user's."""
        if self.path.name == ".mcp.json" or self.place[0] == "projects":
            return True
        return self.path.parent.name in {".cursor", ".vscode"} and self.folder.resolve() != Path.home().resolve()

    def with_ours(self, adopted: Sequence[str], entry: JsonObject) -> bytes:
        """Return the file with our entry in the place of the first adopted one, and without the others."""
        servers, name = _table(self.content, self.place), self.name_for_ours(adopted)
        changed: JsonObject = {}
        for key, value in servers.items():
            if key not in adopted:
                changed[key] = value
            elif name not in changed:
                changed[name] = entry
        return self.written_as(self.with_servers(changed))

    def name_for_ours(self, adopted: Sequence[str]) -> str:
        """Return the name of our entry: somebody's server may be called so."""
        return OURS if OURS in adopted or OURS not in _table(self.content, self.place) else "saga-mcp"

    def with_servers(self, servers: JsonObject) -> JsonObject:
        """Return what the file holds, with other servers."""
        content = copy.deepcopy(self.content)
        table = _table(content, self.place)
        table.clear()
        table.update(servers)
        return content

    def written_as(self, content: JsonObject) -> bytes:
        """Return content in this file's manner."""
        indent = re.search(rb"^([ \t]+)\"", self.raw, re.MULTILINE)
        text = json.dumps(content, indent=indent[1].decode() if indent else 2, ensure_ascii=False)
        return f"{_LONE.sub(_escaped, text)}\n".encode()


def read_client_file(path: Path, project: Path) -> ClientFile:
    """Read a client's config.

    Args:
        path: The file.
        project: Whose servers are meant, where one file holds those of many projects.

    Raises:
        ClientFileUnusable: it is not there, or no file of a kind that is known.
    """
    path = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - `resolve` would follow a link to another project
    raw, content = _read(path, _each_once)
    places: list[Place] = [("mcpServers",), ("servers",), ("mcp", "servers")]
    projects = content.get("projects")
    if isinstance(projects, dict):
        places.insert(0, ("projects", str(project), "mcpServers"))
    for place in places:
        table = _found(content, place)
        if isinstance(table, dict) and table:
            if not all(isinstance(each, dict) for each in table.values()):
                raise ClientFileUnusable(f"{path}: not every entry of {'.'.join(place)} is an object")
            return ClientFile(path, _client(path, place), place, raw, content)
    if isinstance(projects, dict) and (with_servers := _projects_with_servers(projects)):
        raise ClientFileUnusable(f"{path} has servers only of {', '.join(with_servers)}: name one with --project")
    raise ClientFileUnusable(f"{path} names no servers: neither mcpServers nor servers is there and filled")


def read_backup(file: ClientFile) -> ClientFile:
    """Read a client's config as it was before it was adopted.

    Raises:
        ClientFileUnusable: there is no backup, or it holds no servers where the file has them.
    """
    path = backup_of(file.path)
    raw, content = _read(path, dict)  # it was adopted as it is, so the way back stays open
    if not isinstance(_found(content, file.place), dict):
        raise ClientFileUnusable(f"{path} has no servers at {'.'.join(file.place)}")
    return ClientFile(path, file.client, file.place, raw, content)


def default_client_file(environ: Mapping[str, str], home: Path, platform: str = sys.platform) -> Path:
    """Return where Claude Desktop keeps its config, on this system."""
    if platform == "win32":
        base = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
        local = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
        packaged = local / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming"
        base = packaged if (packaged / "Claude").is_dir() else base
    elif platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return base / "Claude" / "claude_desktop_config.json"


def _read(path: Path, built: Callable[[list[tuple[str, JsonValue]]], JsonObject]) -> tuple[bytes, JsonObject]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ClientFileUnusable(f"{path} is not there: name the file of your client, such as .mcp.json") from error
    except OSError as error:
        raise ClientFileUnusable(f"{path} cannot be read: {error.strerror or error}") from error
    if not raw.strip():
        raise ClientFileUnusable(
            f"{path} is empty: set your servers up in the client first, or name the file with them"
        )
    try:
        content: object = json.loads(
            plain(raw.decode("utf-8-sig")), object_pairs_hook=built, parse_float=_finite, parse_constant=_finite
        )
    except _Repeated as repeated:
        raise ClientFileUnusable(
            f"{path} says {json.dumps(repeated.name, ensure_ascii=False)} more than once in one object, and clients "
            "take only one of them: remove the other one there, and try again"
        ) from repeated
    except (ValueError, RecursionError) as error:
        raise ClientFileUnusable(f"{path} is no JSON ({error}): mend it there, and try again") from error
    if not isinstance(content, dict):
        raise ClientFileUnusable(f"{path} does not hold an object")
    return raw, cast("JsonObject", content)


def _all_texts(value: JsonValue) -> Iterator[str]:
    """Every text in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _all_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _all_texts(each)


def _escaped(lone: re.Match[str]) -> str:
    return f"\\u{ord(lone[0]):04x}"


def _finite(written: str) -> float:
    """A number as it can be written again."""
    if not math.isfinite(number := float(written)):
        raise ValueError(f"{written} is no number that JSON has, or too large to be written again")
    return number


class _Repeated(ValueError):
    """An object has one name twice."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


def _each_once(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    """Build an object of which nothing is lost, as it would be where a name comes twice and the last one wins."""
    found: JsonObject = {}
    for name, value in pairs:
        if name in found:
            raise _Repeated(name)
        found[name] = value
    return found


def _client(path: Path, place: Place) -> str:
    if place[-1] == "servers":
        return "VS Code"
    if path.parent.name == ".cursor":
        return "Cursor"
    if path.name in {".mcp.json", ".claude.json"}:
        return "Claude Code"
    return "Claude Desktop" if path.name == "claude_desktop_config.json" else "MCP client"


def _found(content: JsonValue, place: Place) -> JsonValue:
    for key in place:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _table(content: JsonObject, place: Place) -> JsonObject:
    return cast("JsonObject", _found(content, place))


def _projects_with_servers(projects: JsonObject) -> list[str]:
    return [name for name, each in projects.items() if isinstance(each, dict) and each.get("mcpServers")]


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: JsonValue) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _text_map(value: JsonValue) -> dict[str, str]:
    return {name: str(each) for name, each in value.items()} if isinstance(value, dict) else {}


def backup_of(path: Path) -> Path:
    """Return where a file is kept as it was before it was adopted; earlier versions kept it where a link leads."""
    beside, there = (each.with_name(f"{each.name}.before-saga-mcp") for each in (path, path.resolve()))
    return there if there.exists() and not beside.exists() else beside


def free_name(path: Path) -> Path:
    """Return a name beside a file that nothing has yet: its own, with a number."""
    numbered = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    return next(each for each in numbered if not each.exists() and not each.is_symlink())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, with the mode that it has; of a link, the file that it leads to.

    Raises:
        OSError: it could not be written.
    """
    path = path.resolve()
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with new.open("xb") as file:
            new.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
