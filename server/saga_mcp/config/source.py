"""Reads the config file: where it is, its text, and on which line each key stands."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from saga_mcp.config.problems import ConfigInvalid, ConfigMissing, ConfigProblem, KeyPath

_HEADER = re.compile(r"\s*\[{1,2}\s*(?P<key>.+?)\s*\]{1,2}\s*(#.*)?$")
_KEY = re.compile(
    r"""\s*(?P<key>(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)


def find_config(given: Path | None, environ: Mapping[str, str], folder: Path) -> Path:
    """Return the config file: as given, else `SAGA_MCP_CONFIG`, else `saga.toml` in the folder.

    Raises:
        ConfigMissing: There is none.
    """
    named = environ.get("SAGA_MCP_CONFIG", "")
    path = given or Path(named or "saga.toml")
    path = (folder / path.expanduser()).resolve()
    if not path.is_file():
        raise ConfigMissing(path)
    return path


def read_config(path: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return what the file says, and the lines of its keys as far as they can be told cheaply.

    Raises:
        ConfigInvalid: It cannot be read at all.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(path, [ConfigProblem("", f"cannot be read: {error}")]) from error
    if path.suffix == ".json":
        return _read_json(path, text), {}
    try:
        return tomllib.loads(text), _toml_lines(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else None
        raise ConfigInvalid(path, [ConfigProblem("", f"is not TOML: {error}", line)]) from error
    except (RecursionError, ValueError) as error:
        raise _beyond_reading(path, error) from error


def _read_json(path: Path, text: str) -> dict[str, Any]:
    try:
        content: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigInvalid(path, [ConfigProblem("", f"is not JSON: {error.msg}", error.lineno)]) from error
    except (RecursionError, ValueError) as error:
        raise _beyond_reading(path, error) from error
    if not isinstance(content, dict):
        raise ConfigInvalid(path, [ConfigProblem("", "has to hold one object")])
    return cast("dict[str, Any]", content)


def _beyond_reading(path: Path, error: Exception) -> ConfigInvalid:
    """What may be well written, and no parser takes: nested too deep, an integer of too many digits."""
    deep = isinstance(error, RecursionError)
    return ConfigInvalid(path, [ConfigProblem("", f"cannot be read: {'it is nested too deep' if deep else error}")])


def _toml_lines(text: str) -> dict[KeyPath, int]:
    """Find headers and keys by their look; a line in a longer string may pass for one, which only misleads a hint."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _key_path(header["key"]) or table
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_key_path(key["key"])), number)
    return lines


def _key_path(written: str) -> KeyPath:
    try:
        value: object = tomllib.loads(f"{written} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(value, dict):
        key, value = next(iter(cast("dict[str, object]", value).items()))
        path.append(key)
    return tuple(path)
