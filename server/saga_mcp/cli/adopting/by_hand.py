"""What a person changes in a client's file that cannot be written without a loss: exactly what would be written. Pure.

No value of an environment is shown: it is said where in the file it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from saga_mcp.cli.adopting.client_file import ClientFile
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge.clean import escape


@dataclass(frozen=True, slots=True)
class Change:
    """Of the table of servers."""

    file: ClientFile
    take_out: tuple[str, ...]
    put_in: JsonObject
    """One entry, by its name."""

    def for_people(self) -> Iterator[str]:
        """What to do, line by line."""
        table = ".".join(self.file.place)
        yield f"{self.file.path} has comments, which would be lost: it stays as it is, and this is for you to change."
        yield f"In {escape(table)}, in the place of {', '.join(escape(name) for name in self.take_out)}:"
        for line in json.dumps(self.put_in, indent=2, ensure_ascii=False).splitlines()[1:-1]:
            yield escape(line)
        if any("env" in entry for entry in self.put_in.values() if isinstance(entry, dict)):
            yield "For each <...>, what stands there in the file now."

    def for_programs(self) -> JsonObject:
        """The same."""
        return {"take_out": [*self.take_out], "put_in": self.put_in}


def change(file: ClientFile, adopted: Sequence[str], entry: JsonObject) -> Change:
    """Return what is to be changed.

    Args:
        file: The client's.
        adopted: Servers that are put behind ours.
        entry: Ours, in their place.
    """
    texts = {
        text: place for each in file.entries if each.name in adopted for place, text in _texts(each.written, each.name)
    }
    shown = {**entry}
    if isinstance(env := entry.get("env"), dict):
        shown["env"] = {name: f"<{texts.get(str(value), name)}>" for name, value in env.items()}
    return Change(file, tuple(adopted), {file.name_for_ours(adopted): shown})


def _texts(value: JsonValue, place: str) -> Iterator[tuple[str, str]]:
    """Every text, and where it stands."""
    if isinstance(value, str):
        yield place, value
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, f"{place}.{index}")
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, f"{place}.{key}")
