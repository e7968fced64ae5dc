"""Whether a structured result is what its tool's output schema promises, judged as clients judge it.

At the edge because only clients hold a result to the schema: those of both SDKs throw where it does not fit, and throw
away the news of an effect that has happened (CASES C04).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge.clean import clean

if TYPE_CHECKING:
    from jsonschema_rs import Validator

MOST_VALUES = 10_000
"""A result with more is passed on as it is: to judge it would hold up every other call for too long."""


class Promise:
    """An advertised output schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def kept_by(self, result: JsonObject) -> bool:
        """Whether a client would take the result; a schema that cannot be judged by refuses nothing."""
        if not _few(result):
            return True
        try:
            return self._validator.is_valid(clean(result))
        except Exception:  # noqa: BLE001 - the author's schema may hold anything, and the effect has happened
            return True

    @cached_property
    def _validator(self) -> Validator:
        # No start has to wait for this import.
        from jsonschema_rs import validator_for  # noqa: PLC0415 - see above

        return validator_for(dict(self._schema), retriever=_fetch_nothing)


def _fetch_nothing(uri: str) -> NoReturn:
    """What a schema refers to elsewhere stays unknown: judging a result sends nothing."""
    raise LookupError(uri)


def _few(result: JsonObject) -> bool:
    left = MOST_VALUES
    rest: list[JsonValue] = [result]
    while rest:
        value = rest.pop()
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        left -= len(inside)
        if left < 0:
            return False
        rest.extend(inside)
    return True
