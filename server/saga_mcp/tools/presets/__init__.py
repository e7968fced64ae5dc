"""What is known of servers that many people run: for each, what undoes its tools, as data.

One TOML file a server, in the syntax of `saga.toml` with the tools' own names. On this layer because it says what an
upstream's tools are; how a file is laid under a user's config is the config's business. `docs/presets.md` says how one
is added.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import cast

from saga_mcp.domain.values import JsonObject, JsonValue

RUN = "run"
"""Every pair was run against the real server, by a test."""
SCHEMA = "schema, not run against the service"
"""Read from the server's schemas and documentation."""

_COMPARISON = re.compile(r"(>=|<=|<|>|==)\s*([0-9][0-9A-Za-z.+-]*)")


class PresetUnknown(Exception):
    """There is no preset of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What one server's tools are, and what undoes them."""

    name: str
    title: str
    package: str
    """What is installed to get the server."""
    checked: str
    """The package's version that this was checked against."""
    server: str
    """The name that it gives itself when it is connected to."""
    versions: str
    """Of the server, as it gives it then: `>=1.2, <2`. Not the package's: many servers never change theirs."""
    evidence: str
    """`RUN` or `SCHEMA`."""
    upstream: JsonObject
    """Keys of `[upstreams.NAME]`."""
    tools: Mapping[str, JsonObject]
    """Tables of `[tools]`, by the tool's own name; tools that they name are the server's own too."""

    @property
    def read_only(self) -> tuple[str, ...]:
        """Tools that only read and have no table of their own."""
        return tuple(cast("list[str]", self.upstream.get("read_only", [])))

    def misfit(self, server: str, version: str) -> str:
        """Return why it was not made for a server that calls itself so; empty if it was."""
        if server != self.server:
            return f"was made for the server {self.server}, and this one is {server or 'nameless'}"
        if not within(version, self.versions):
            return f"was checked with {self.server} {self.versions} ({self.package} {self.checked}), this is {version}"
        return ""

    def tables_for(self, upstream: str) -> dict[str, JsonObject]:
        """Return the tables of `[tools]` as a config with this upstream would write them."""
        qualified = {tool: _qualified(table, upstream) for tool, table in self.tools.items()}
        return {f"{upstream}.{tool}": cast("JsonObject", table) for tool, table in qualified.items()}


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, in order."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml")))


@cache
def load_preset(name: str) -> Preset:
    """Return a preset.

    Raises:
        PresetUnknown: there is none of that name.
    """
    if name not in preset_names():
        raise PresetUnknown(name)
    content = tomllib.loads(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    head: dict[str, str] = content["preset"]
    return Preset(name=name, upstream=content.get("upstream", {}), tools=_tables(content.get("tools", {})), **head)


def _tables(written: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """Return what each table says: `like` names an earlier one, whose keys it has where it does not say them itself."""
    tables: dict[str, JsonObject] = {}
    for name, table in written.items():
        like = table.get("like")
        base = tables[like] if isinstance(like, str) else {}
        tables[name] = {**base, **{key: value for key, value in table.items() if key != "like"}}
    return tables


def within(version: str, versions: str) -> bool:
    """Return whether a version is in a range such as `>=1.2, <2`; numbers are compared, anything else is left out."""
    own = _numbers(version)
    return bool(own) and all(_holds(own, sign, _numbers(bound)) for sign, bound in _COMPARISON.findall(versions))


def _holds(own: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    length = max(len(own), len(bound))
    left, right = (part + (0,) * (length - len(part)) for part in (own, bound))
    return {">=": left >= right, "<=": left <= right, "<": left < right, ">": left > right, "==": left == right}[sign]


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _qualified(value: JsonValue, upstream: str) -> JsonValue:
    """Put the upstream's name before every tool that is named: whatever stands under `tool`, outside of arguments."""
    if isinstance(value, dict):
        return {key: _qualified_member(key, item, upstream) for key, item in value.items()}
    if isinstance(value, list):
        return [_qualified(item, upstream) for item in value]
    return value


def _qualified_member(key: str, item: JsonValue, upstream: str) -> JsonValue:
    if key == "tool" and isinstance(item, str):
        return f"{upstream}.{item}"
    return item if key in {"args", "force"} else _qualified(item, upstream)


def _folder() -> Traversable:
    return resources.files(__name__)
