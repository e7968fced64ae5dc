"""What a client's file is without our entry, and what of the files before it is then nowhere any more. Pure.

Between adopting and going back a person works on the file, and so does its client. What they wrote wins over what was
there before, and nothing is dropped in silence: whatever does not get into the new file is named, so that the file that
holds it can be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from saga_mcp.cli.adopting.client_file import OURS, ClientFile, Entry
from saga_mcp.cli.adopting.existing import reached_alike, renewed
from saga_mcp.domain.values import JsonObject, JsonValue

_WRITTEN_BY_US = frozenset({"type", "command", "args", "env"})


@dataclass(frozen=True, slots=True)
class Restored:
    """The file, and what is not in it."""

    content: bytes
    servers: tuple[str, ...]
    """Those that are put back."""
    renewed: tuple[str, ...]
    """Of them, those that get values which our entry has and they did not have."""
    not_as_before: tuple[str, ...]
    """What of the file before the adoption is not in this one, in words."""
    dropped: tuple[str, ...]
    """What of our entry is not in it either, in words."""


def our_entry(file: ClientFile) -> Entry | None:
    """Return the entry that was written when the file was adopted; a person may have added another that starts us."""
    ours = {entry.name: entry for entry in file.entries if entry.is_ours}
    return ours.get(OURS) or ours.get("saga-mcp") or next(iter(ours.values()), None)


def restore(
    file: ClientFile, ours: Entry, before: ClientFile, upstreams: Mapping[str, JsonObject], cwd: str
) -> Restored:
    """Put the servers of an older file in the place of our entry.

    Args:
        file: As it is.
        ours: Its entry that goes.
        before: As it was before it was adopted.
        upstreams: Of the config that our entry names: they tell what the environment of our entry is for.
        cwd: Where the config has to say that a server runs; empty where it need not.
    """
    kept = {entry.name: entry.written for entry in file.entries if entry.name != ours.name}
    old = {entry.name: entry.written for entry in before.entries}
    back: dict[str, JsonObject] = {}
    used: set[str] = set()
    for entry in before.entries:
        written = _upstream_of(entry, upstreams, cwd)
        referred = reached_alike(written, entry, cwd) or {}
        used |= {name for name, value in {**entry.env, **referred}.items() if ours.env.get(name) == value}
        if entry.name not in kept:
            back[entry.name] = renewed(entry.written, written, ours.env)
            used |= referred.keys()
    servers: JsonObject = {**{name: back.get(name, kept.get(name)) for name in old}, **kept}
    content = file.with_servers(servers)
    same = content == before.content
    return Restored(
        content=before.raw if same else file.written_as(content),
        servers=tuple(back),
        renewed=tuple(name for name, entry in back.items() if entry != old[name]),
        not_as_before=(
            *(name for name, entry in old.items() if not _holds(servers[name], entry)),
            *_others(before.with_servers({}), file.with_servers({})),
            *(["its comments"] if before.has_comments and not same else []),
        ),
        dropped=(*_dropped(ours, used),),
    )


def _upstream_of(entry: Entry, upstreams: Mapping[str, JsonObject], cwd: str) -> JsonObject:
    """Return what the config says of a server; nothing where none of its upstreams is reached as the server was."""
    for written in upstreams.values():
        if reached_alike(written, entry, cwd) is not None:
            return written
    return {}


def _others(before: JsonObject, after: JsonObject) -> Iterator[str]:
    for key, value in before.items():
        if key not in after or not _holds(after[key], value):
            yield key


def _dropped(ours: Entry, used: set[str]) -> Iterator[str]:
    for name in ours.env:
        if name not in used:
            yield f"{name} in the env of {ours.name}"
    for key in ours.written:
        if key not in _WRITTEN_BY_US:
            yield f"{key} of {ours.name}"
    if ours.args[-3:-1] != ["serve", "--config"]:
        yield f"the args of {ours.name}"


def _holds(now: JsonValue, before: JsonValue) -> bool:
    """Whether all that was there is there still, and as it was."""
    if isinstance(now, dict) and isinstance(before, dict):
        return all(key in now and _holds(now[key], value) for key, value in before.items())
    return now == before
