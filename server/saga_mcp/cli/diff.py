"""`show --diff`: what was there before each step, next to what the step left behind (SEMANTICS.md S6.6, S6.7).

Pure. Only what was captured can be shown: a tool without a capture leaves no picture of the time before it. Where the
capture was not made again after the step, what the step said stands in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import unified_diff

from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonValue
from saga_mcp.edge.clean import escape

NOTHING_CAPTURED = (
    "Nothing was captured before these steps, so there is no before and after to compare: no tool of theirs has a "
    "capture. `--values` shows what each was called with and what it returned."
)


def diff(saga: Saga, number: int | None) -> Iterator[str]:
    """The lines that show a saga's captured steps, or one of them."""
    captured = _captured(saga, number)
    if not captured:
        yield NOTHING_CAPTURED
    for step in captured:
        name = f"step {step.number} {step.tool}"
        what, after = ("result", step.result) if step.image is None else ("left behind", step.image)
        before, now = _lines(step.capture), _lines(after)
        for line in unified_diff(before, now, f"{name}: captured before", f"{name}: {what}", lineterm=""):
            yield escape(line)
        if before == now:
            yield escape(f"{name}: {what} is what was captured before")


def diff_json(saga: Saga, number: int | None) -> list[JsonValue]:
    """The same for programs."""
    return [
        {
            "step": step.number,
            "tool": step.tool,
            "before": step.capture,
            "left": step.image,
            "after": step.after,
            "result": step.result,
        }
        for step in _captured(saga, number)
    ]


def _captured(saga: Saga, number: int | None) -> list[Step]:
    return [step for step in saga.steps if step.capture is not None and number in {None, step.number}]


def _lines(value: JsonValue) -> list[str]:
    shown = _seen(value)
    text = shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False, sort_keys=True)
    return text.splitlines()


def _seen(value: JsonValue) -> JsonValue:
    """What an image shows: nothing, a result, or else a text."""
    if not isinstance(value, dict) or value.keys() != {"found", "result", "text"}:
        return value
    if not value["found"]:
        return ""
    return value["text"] if value["result"] in (None, {}) else value["result"]
