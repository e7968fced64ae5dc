"""`show --diff`: what was there before each step, what the step left behind, and what is there now (S6.6, S6.7).

Pure. Only what was captured can be shown: a tool without a capture leaves no picture of the time before it. Where the
capture was not made again after the step, what the step said stands in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import unified_diff

from saga_mcp.cli.present import Present, Watched
from saga_mcp.cli.views import WIPED
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge.clean import escape
from saga_mcp.tools.images import same_image
from saga_mcp.tools.looks import World

NOTHING_CAPTURED = (
    "Nothing was captured before these steps, so there is no before and after to compare: no tool of theirs has a "
    "capture. `--values` shows what each was called with and what it returned."
)


def diff(saga: Saga, number: int | None, now: Mapping[int, Present]) -> Iterator[str]:
    """The lines that show a saga's captured steps, or one of them; `now` by step, where it was looked at again."""
    steps = captured(saga, number)
    if saga.wiped:
        yield WIPED
    elif not steps and not any(each.watched for each in now.values()):
        yield NOTHING_CAPTURED
    for step in steps:
        name = f"step {step.number} {step.tool}"
        what, after = ("result", step.result) if step.image is None else ("left behind", step.image)
        yield from _compared(name, ("captured before", step.capture), (what, after))
        if step.number in now:
            yield from _compared_now(name, step, now[step.number])
    for step in saga.steps:
        if step.number in now and (watched := now[step.number].watched) is not None:
            yield from _guarded(f"step {step.number} {step.tool}", watched)


_FINDS = {
    World.AS_LEFT: "it is as the step left it",
    World.AS_BEFORE: "it is as it was before the step",
    World.CHANGED: "it was changed since",
    None: "it cannot tell",
}


def _guarded(name: str, watched: Watched) -> Iterator[str]:
    """What a guard expects that has a read of its own, and what it finds."""
    why = f" ({watched.unseen})" if watched.unseen else ""
    yield escape(f"{name}: its guard reads {watched.tool} now: {_FINDS[watched.finds]}{why}")
    yield escape(f"{name}: as the step left it is {watched.as_left}")
    yield escape(f"{name}: as before the step is {watched.as_before}")
    for line in _lines({"found": True, "result": watched.result, "text": watched.text}):
        yield escape(f"  {line}")


def _compared(name: str, old: tuple[str, JsonValue], new: tuple[str, JsonValue]) -> Iterator[str]:
    (was, before), (became, after) = old, new
    old_lines, new_lines = _lines(before), _lines(after)
    for line in unified_diff(old_lines, new_lines, f"{name}: {was}", f"{name}: {became}", lineterm=""):
        yield escape(line)
    if old_lines == new_lines:
        yield escape(f"{name}: {became} is what was {was}")


def _compared_now(name: str, step: Step, now: Present) -> Iterator[str]:
    if now.unseen:
        yield escape(f"{name}: what is there now cannot be read: {now.unseen}")
    elif step.image is not None and same_image(now.image, step.image, ignore_order=False):
        yield escape(f"{name}: now is what the step left behind")
    elif same_image(now.image, step.capture, ignore_order=False):
        yield escape(f"{name}: now is what was captured before")
    elif step.image is None:
        yield from _compared(name, ("captured before", step.capture), ("now", now.image))
    else:
        yield from _compared(name, ("left behind", step.image), ("now", now.image))


def diff_json(saga: Saga, number: int | None, now: Mapping[int, Present]) -> list[JsonValue]:
    """The same for programs."""
    shown = captured(saga, number)
    guarded = [step for step in saga.steps if step.number in now and now[step.number].watched and step not in shown]
    return [_step_json(step, now.get(step.number)) for step in (*shown, *guarded)]


def _step_json(step: Step, now: Present | None) -> JsonObject:
    shown: JsonObject = {
        "step": step.number,
        "tool": step.tool,
        "before": step.capture,
        "left": step.image,
        "after": step.after,
        "result": step.result,
    }
    if now is None:
        return shown
    watched = now.watched
    guard: JsonValue = None
    if watched is not None:
        guard = {
            "tool": watched.tool,
            "as_left": watched.as_left,
            "as_before": watched.as_before,
            "finds": None if watched.finds is None else watched.finds.value,
            "text": watched.text,
            "result": watched.result,
            "unseen": watched.unseen,
        }
    return shown | {"now": now.image, "now_unseen": now.unseen, "guard": guard}


def captured(saga: Saga, number: int | None) -> list[Step]:
    """The steps of a saga before which something was captured, or one of them."""
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
