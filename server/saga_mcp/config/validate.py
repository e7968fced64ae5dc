"""From what a file says to the models, with pydantic's complaints in a person's words."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from pydantic import ValidationError

from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import KeyPath, did_you_mean
from saga_mcp.config.table import Clash, Table

T = TypeVar("T", bound=Table)

_MUST_BE = {
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "finite_number": "must be a finite number",
}


_ROUNDS = 5
"""Of leaving out what is wrong and looking at the rest; a table still wrong after that is given up."""
_IN_PLACE: Mapping[str, object] = {"undo": [{"nothing": True}]}
"""What stands where something that cannot be read is left out; its absence would be a problem of its own."""


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """A table as its model, without what is wrong in it, so that the rest can be checked."""

    table: T
    unread: frozenset[str]
    """Keys that may have been meant to say something, and could not be read: nothing follows from their absence."""
    written: Mapping[str, object]
    """As the file has it."""


def validate(model: type[T], content: object, path: KeyPath, findings: Findings) -> Read[T] | None:
    """Read a table; its problems are noted. None where nothing can be made of it."""
    content = copy.deepcopy(content)
    left_out: list[KeyPath] = []
    unread: set[KeyPath] = set()
    for _ in range(_ROUNDS):
        try:
            table = model.model_validate(content)
        except ValidationError as error:
            wrong: list[KeyPath] = []
            for item in error.errors(include_url=False):
                where, inner = _locate(model, content, item["loc"])
                # What was left out before may be what this complains about.
                if not any(other[: len(where)] == where for other in left_out):
                    findings.problem((*path, *where), _message(cast("Mapping[str, Any]", item), where, inner))
                if item["type"] == "extra_forbidden":
                    unread.add((*where[:-1], _meant_key(str(where[-1]), inner)))
                else:
                    left_out.append(where)
                    unread.add(where)
                wrong.append(where)
            if not all(map(partial(_leave_out, content), wrong)):
                return None
        else:
            written = cast("Mapping[str, object]", content)
            for where, clash in _clashes(table, written):
                if not any((*where, key) in unread for key in clash.keys):
                    findings.problem((*path, *where), clash.message)
            return Read(table, frozenset(str(where[0]) for where in unread), written)
    return None


def _meant_key(key: str, table: type[Table]) -> str:
    """The key that one which this version does not know was probably meant to be."""
    return next(iter(difflib.get_close_matches(key, table.model_fields, n=1)), key)


def _clashes(table: Table, written: object, where: KeyPath = ()) -> Iterator[tuple[KeyPath, Clash]]:
    """What does not go together in a table and in those inside it, and where that is in the file."""
    for clash in table.clashes():
        yield where, clash
    for name in type(table).model_fields:
        value = cast("object", getattr(table, name))
        place = _inside(written, name)
        if isinstance(value, Table):
            yield from _clashes(value, place, (*where, name))
        for number, each in enumerate(cast("list[object]", value) if isinstance(value, list) else ()):
            if isinstance(each, Table):
                at: KeyPath = (*where, name) if _is_table(place) else (*where, name, number)
                yield from _clashes(each, place if _is_table(place) else _inside(place, number), at)


def _leave_out(root: object, where: KeyPath) -> bool:
    """Take what is at `where` out of `root`; whether that was possible."""
    if not where:
        return False
    content = root
    for part in where[:-1]:
        content = _inside(content, part)
    last = where[-1]
    if isinstance(content, dict):
        table = cast("dict[str, object]", content)
        if last not in table:  # it is missing: what it should be in cannot be read
            return _leave_out(root, where[:-1])
        del table[str(last)]
        if last in _IN_PLACE:
            table[str(last)] = _IN_PLACE[str(last)]
    elif isinstance(content, list) and isinstance(last, int):
        cast("list[object]", content)[last] = {} if where[-2:-1] == ("cases",) else {"nothing": True}
    return True


def _inside(content: object, part: str | int) -> object:
    if isinstance(content, dict):
        return cast("dict[str, object]", content).get(str(part))
    if isinstance(content, list) and isinstance(part, int):
        return cast("list[object]", content)[part]
    return None


def _is_table(content: object) -> bool:
    return isinstance(content, dict)


def _locate(model: type[Table], content: object, loc: tuple[int | str, ...]) -> tuple[KeyPath, type[Table]]:
    """Return where in the file an error is, and the model of the table that it is in.

    A single undo is a list of one to the model; the file has no index there.
    """
    where: list[int | str] = []
    table = model
    for part in loc:
        if isinstance(part, int) and _is_table(content):
            continue
        where.append(part)
        if isinstance(part, str):
            table = _table_of(table, part)
        content = _inside(content, part)
    return tuple(where), table


def _table_of(table: type[Table], key: str) -> type[Table]:
    found = table.model_fields.get(key)
    inner = [each for each in _types_in(found.annotation) if issubclass(each, Table)] if found else []
    return inner[0] if inner else table


def _types_in(annotation: Any) -> list[type]:  # noqa: ANN401 - an annotation
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return [annotation]
    return [found for argument in getattr(annotation, "__args__", ()) for found in _types_in(argument)]


def _message(item: Mapping[str, Any], where: KeyPath, table: type[Table]) -> str:
    kind: str = item["type"]
    context: Mapping[str, Any] = item.get("ctx", {})
    if kind == "extra_forbidden":
        key = str(where[-1])
        return f"unknown key{did_you_mean(key, table.model_fields)}"
    if kind == "missing":
        return "is required"
    if kind == "literal_error":
        choices = str(context["expected"]).replace("'", '"')
        return f"must be {choices}{_meant(item['input'], choices)}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "list_type" and where[-1] not in table.model_fields:
        return "must be a table, or a list of tables"
    if kind in _MUST_BE:
        return _MUST_BE[kind]
    message: str = item["msg"]
    return message.replace("Input should be", "must be")


def _meant(given: object, choices: str) -> str:
    return (
        did_you_mean(given, choices.replace('"', "").replace(" or ", ", ").split(", "))
        if isinstance(given, str)
        else ""
    )
