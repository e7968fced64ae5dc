"""What is shown of a saga whose calls have secret arguments: everything but those (SEMANTICS.md S11.4).

Pure, and apart from every view, so that none can forget it: a secret that an undo needs is in the log, and from there
also in what the undo is sent, in what tools say of it and in what a person is asked. It is therefore hidden by its
value, wherever values of the outside world are (the fields that take no part in comparison).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from saga_mcp.domain.events import PartSpec, StepPlan
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.domain.vector import Vector

T = TypeVar("T")

SHOWN = "[secret]"
"""What stands in the place of a secret."""
NOT_STORED = "[secret: not stored]"
"""The same in the log, where a tool repeats what is not stored: no undo may be built from it."""
_SHORT = 4
"""Characters: a text that is shorter is a word of many other texts, and is hidden only where it stands alone."""


class Hiding:
    """Hides secrets.

    Args:
        secrets: The values. Of objects and lists, every text and number in them.
        shown: What stands in their place.
    """

    def __init__(self, secrets: Iterable[JsonValue] = (), shown: str = SHOWN) -> None:
        self._shown = shown
        leaves = [leaf for secret in secrets for leaf in _leaves(secret)]
        self._numbers = frozenset(leaf for leaf in leaves if not isinstance(leaf, str))
        patterns = sorted({pattern for leaf in leaves for pattern in _patterns(leaf)}, key=len, reverse=True)
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def text(self, text: str) -> str:
        """Return a text without them."""
        return text if self._pattern is None else self._pattern.sub(self._shown, text)

    def json(self, value: JsonValue) -> JsonValue:
        """Return a value without them."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float():
                return self._shown if value in self._numbers else value
            case list():
                return [self.json(item) for item in value]
            case dict():
                return {self.text(name): self.json(item) for name, item in value.items()}

    def of(self, shown: T) -> T:
        """Return an event, or any other part of a saga, without them."""
        return cast("T", self._of(shown))

    def _of(self, value: Any) -> Any:  # noqa: ANN401 - any part of a saga
        if isinstance(value, StepPlan) and value.secret:
            value = replace(
                value, args={**value.args, **dict.fromkeys(value.secret, self._shown)}, sealed={}, args_digest=""
            )
        if is_dataclass(value) and not isinstance(value, type | Vector):
            changed = {
                each.name: self._of(old) if each.compare else self.json(old)
                for each in fields(value)
                if (old := getattr(value, each.name))
            }
            return replace(value, **changed)
        if isinstance(value, tuple):
            return tuple(map(self._of, cast("tuple[object, ...]", value)))
        if isinstance(value, Vector):
            return Vector[object].of(map(self._of, cast("Vector[object]", value)))
        return value


def hidden(saga: Saga) -> Saga:
    """Return a saga as it may be shown; nothing may be decided on it."""
    return hiding(saga).of(saga) if saga.has_secrets else saga


def hiding(saga: Saga) -> Hiding:
    """Return what hides the secrets that are stored with a saga."""
    return Hiding(
        secret for step in saga.steps for secret in (*secrets_of(step.plan), *secrets_of_parts(step.registered))
    )


def secrets_of(plan: StepPlan) -> tuple[JsonValue, ...]:
    """Return the secrets that are stored with a call."""
    return tuple(plan.args[name] for name in plan.secret if name in plan.args)


def secrets_of_parts(parts: Iterable[PartSpec]) -> tuple[JsonValue, ...]:
    """Return the secrets that are stored only with what a call registered for its undo."""
    return tuple(part.secrets for part in parts if part.secrets)


def repeated(value: JsonValue, secrets: Iterable[JsonValue]) -> list[JsonValue]:
    """Return the texts and numbers of secrets that a value repeats."""
    return [leaf for secret in secrets for leaf in _leaves(secret) if Hiding([leaf]).json(value) != value]


def without(args: JsonObject, names: Iterable[str]) -> JsonObject:
    """Return arguments without some of them."""
    left_out = frozenset(names)
    return {name: value for name, value in args.items() if name not in left_out} if left_out else args


def _leaves(secret: JsonValue) -> Iterator[str | float]:
    match secret:
        case bool() | None | "":
            return
        case str() | int() | float():
            yield secret
        case list():
            for item in secret:
                yield from _leaves(item)
        case dict():
            for item in secret.values():
                yield from _leaves(item)


def _patterns(leaf: str | float) -> Iterator[str]:
    """How it may be written in a text: as it is, and as JSON."""
    if isinstance(leaf, str) and len(leaf) >= _SHORT:
        for written in (leaf, json.dumps(leaf)[1:-1], json.dumps(leaf, ensure_ascii=False)[1:-1]):
            yield re.escape(written)
    else:
        yield rf"(?<!\w){re.escape(str(leaf))}(?!\w)"
