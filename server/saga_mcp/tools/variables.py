"""Which variables an expression of a pair may use where, and what they hold (DESIGN.md 5.1)."""

from __future__ import annotations

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.port import StepFacts

BEFORE_INTENT = frozenset({"args", "saga"})
"""What is known before a step has a number: of a capture, a case, a resource."""
AFTER_OUTCOME = frozenset({"args", "result", "known", "text", "capture", "after", "saga", "step", "results"})
"""What is frozen with the outcome, and what is read right after it."""
LATER = AFTER_OUTCOME - {"text"}
"""What is still known of a step when a guard, a probe or an undo that is sent looks at it: its answer is not stored."""
NOW = frozenset({"now"})
"""The answer that a condition is about."""

_IMAGE = ("found", "result", "text")
_ANSWER = ("text", "result", "error")
MEMBERS = {
    "saga": ("id",),
    "step": ("key", "number"),
    "capture": _IMAGE,
    "after": _IMAGE,
    "now": _ANSWER,
    "read": _ANSWER,
}
"""All that these variables hold."""


def values_of(step: StepFacts, *, with_results: bool = True) -> dict[str, JsonValue]:
    """The variables of a step; what it answered is one of them only where that is at hand.

    Args:
        step: Its facts.
        with_results: Collecting the results takes time with the number of steps: only where somebody looks.
    """
    values: dict[str, JsonValue] = {
        "args": step.args,
        "result": step.result if step.known else {},
        "known": step.known,
        "capture": step.capture,
        "after": step.after,
        "saga": {"id": step.saga_id},
        "step": {"key": step.key, "number": step.number},
        "results": dict(step.results) if with_results else {},
    }
    return values if step.text is None else values | {"text": step.text}
