"""Which texts of a client's file are plainly no secret, so that they may stand in saga.toml as they are. Pure.

Decided by what is known to be harmless, not by what is known to be secret: no list of the shapes of secrets is whole,
and a text that is only referred to costs nothing but a longer line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_SECRET_NAME: Final = re.compile(
    r"(?i)(key|token|secret|pass|pwd|auth|cred|cookie|session|signature|private|dsn|webhook|salt|licen[cs]e|jwt|bearer|"
    r"mnemonic|connection.?string|database.?ur[il]|(?<![a-z])(pat|pin|tok|otp|seed|hmac|sig|code)(?![a-z]))"
)
_WORDS: Final = re.compile(
    r"(?i)true|false|yes|no|on|off|none|null|auto|default|all|any"
    r"|trace|debug|info|notice|warn|warning|error|critical|fatal|quiet|verbose|silent"
    r"|development|dev|production|prod|staging|test|local"
    r"|run|serve|server|start|stdio|sse|https?|streamable[-_]http|mcp|dlx|exec|tool|x"
    r"|json|text|yaml|utf-?8|en|de|fr|es|r[ow]|read-?only"
)
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,7}(\.[0-9]{1,6})?(ms|s|m|h|d|k|kb|mb|gb|%)?", re.IGNORECASE)
_FLAG: Final = re.compile(r"-[A-Za-z]|--[a-z][a-z0-9-]*")
_PATH: Final = re.compile(r"(~|\.{1,2}|[A-Za-z]:)?([/\\][^/\\:;?&=\n]*)+|\.{1,2}")
_FILE: Final = re.compile(
    r"[\w.-]+([/\\][\w.-]+)*\.(py|js|mjs|cjs|ts|jar|sh|exe|json|ya?ml|toml|db|sqlite3?|txt|md|csv|log)"
)
_URL: Final = re.compile(r"(https?|wss?|grpc)://([A-Za-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?(?P<path>(/[^?#\s]*)?)")
_HOST: Final = re.compile(r"(localhost|([a-z0-9-]{1,40}\.)+[a-z]{2,10}|([0-9]{1,3}\.){3}[0-9]{1,3})(:[0-9]{1,5})?")
_SEGMENT: Final = re.compile(r"[A-Za-z][A-Za-z._-]{0,23}|v?[0-9]{1,4}|@?[a-z][a-z-]{0,23}[0-9]?")
_SCOPED: Final = re.compile(r"@[a-z][a-z0-9._-]*/[a-z][a-z0-9._-]*(@[a-z0-9.^~-]{1,24})?")
_PINNED: Final = re.compile(r"[a-z][a-z0-9._-]*(\[[a-z,-]+\])?(@|==|>=|~=)(v?[0-9][0-9a-z.+-]{0,19}|latest|next)")
_IMAGE: Final = re.compile(r"[a-z][a-z0-9.-]*(:[0-9]{2,5})?(/[a-z][a-z0-9._-]*)+(:[a-z0-9][a-z0-9._-]{0,23})?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PACKAGE: Final = re.compile(r"[a-z][a-z0-9._-]{0,60}")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_.+-]{1,40}")
_STARTS_PACKAGES: Final = frozenset(
    {"npx", "uvx", "uv", "pipx", "bunx", "pnpm", "yarn", "npm", "deno", "docker", "podman"}
)
_BEFORE_A_PACKAGE: Final = frozenset({"-y", "--yes", "-q", "--quiet", "-i", "--rm", "run", "tool", "x", "dlx", "exec"})
_NAMES_A_PACKAGE: Final = frozenset({"--from", "--package"})
_KNOWN_SECRET: Final = re.compile(
    r"(?x) (^|[^A-Za-z0-9])"
    r" (sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[a-z]|xapp|ntn|lin_api|shpat|npm|dop_v1|hf)[-_]"
    r" | (AKIA|ASIA|eyJ|AIza)[A-Za-z0-9] | (?i:bearer|basic|token)\s | -----BEGIN"
)
_LONG: Final = 16


def is_harmless(name: str, value: str) -> bool:
    """Whether a value of that name is plainly no secret; an empty one is none either."""
    if not value:
        return True
    return not _SECRET_NAME.search(name) and _is_plain(value)


def is_harmless_url(url: str) -> bool:
    """Whether a URL holds nothing but where something is."""
    found = _URL.fullmatch(url)
    if found is None or _KNOWN_SECRET.search(url):
        return False
    return all(_SEGMENT.fullmatch(segment) for segment in found["path"].split("/") if segment)


def is_harmless_command(command: str) -> bool:
    """Whether what is started is a program and nothing else."""
    return bool(_PROGRAM.fullmatch(command)) or _is_path(command)


def is_harmless_argument(command: str, args: Sequence[str], place: int) -> bool:
    """Whether the argument at that place is plainly no secret, after what stands before it."""
    arg, before = args[place], args[place - 1] if place else ""
    if _FLAG.fullmatch(arg) or not arg:
        return True
    name, between, value = arg.partition("=")
    if (
        between and not value.startswith("=") and _NAME.fullmatch(name.lstrip("-"))
    ):  # --port=80, and what follows `docker run -e`
        return is_harmless(name, value)
    if _FLAG.fullmatch(before):
        if _SECRET_NAME.search(before):
            return False
        if before in {"-e", "--env"} and _VARIABLE.fullmatch(arg):
            return True  # only the name of what is handed on
        if before == "-m" and _MODULE.fullmatch(arg):
            return True
    return _is_plain(arg) or (_is_package_place(command, args, place) and bool(_PACKAGE.fullmatch(arg)))


def _is_package_place(command: str, args: Sequence[str], place: int) -> bool:
    """Whether a launcher takes what stands there for the name of what it is to start."""
    launcher = re.split(r"[/\\]", command)[-1].removesuffix(".exe").removesuffix(".cmd")
    before = args[:place]
    named = {at + 1 for at, each in enumerate(before) if each in _NAMES_A_PACKAGE}
    return launcher in _STARTS_PACKAGES and all(
        at in named or each in _BEFORE_A_PACKAGE or each in _NAMES_A_PACKAGE for at, each in enumerate(before)
    )


def _is_plain(value: str) -> bool:
    if _WORDS.fullmatch(value) or _NUMBER.fullmatch(value):
        return True
    if _KNOWN_SECRET.search(value):
        return False
    if is_harmless_url(value) or _HOST.fullmatch(value) or _is_path(value):
        return True
    if any(each.fullmatch(value) for each in (_FILE, _SCOPED, _PINNED, _IMAGE)):
        return not _has_random(value)
    return False


def _is_path(value: str) -> bool:
    """Whether it is a path, or a list of them, none of whose parts looks made by chance."""
    if _KNOWN_SECRET.search(value):
        return False
    parts = [value] if re.match(r"[A-Za-z]:\\", value) else re.split(r"[:;]", value)
    return all(_PATH.fullmatch(part) for part in parts) and not _has_random(value)


def _has_random(value: str) -> bool:
    """Whether a part of it looks like a key: long, and of digits among letters of both cases, or of hex digits."""
    for part in re.split(r"[/\\:@.,_-]", value):
        mixed = re.search(r"[0-9]", part) and re.search(r"[a-z]", part) and re.search(r"[A-Z]", part)
        if len(part) >= _LONG and (mixed or re.fullmatch(r"(?=.*[0-9])[0-9a-fA-F]+", part) or "+" in part):
            return True
    return False
