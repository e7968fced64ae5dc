"""Images of the world, as captures keep them and guards compare them. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import cast

from saga_mcp.domain.values import JsonObject, JsonValue, bytes_of
from saga_mcp.tools.port import ReadAnswer


def image_of(*, found: bool, result: JsonValue = None, text: str = "") -> JsonObject:
    """What expressions see as `capture` or `after`."""
    return {"found": found, "result": result, "text": text}


def digested(image: JsonObject, *, ignore_order: bool) -> JsonObject:
    """What stands for an image that is too large to be kept: enough to be compared with the like, by `same_image`."""
    content = _comparable(image, ignore_order=ignore_order)
    return {"found": image["found"], "sha256": hashlib.sha256(_written(content).encode()).hexdigest()}


def size_of(answer: ReadAnswer) -> int:
    """Bytes of an answer: of its text or of its result, whichever holds more; however JSON would write them."""
    text, result = bytes_of(answer.text), bytes_of(answer.result)
    return result if text > result and _is_json_of(answer) else max(text, result)


def _is_json_of(answer: ReadAnswer) -> bool:
    """Whether the text is only the result once more."""
    if answer.result in (None, {}):
        return False
    try:
        return bool(json.loads(answer.text) == answer.result)
    except (ValueError, RecursionError):
        return False


def same_image(one: JsonValue, other: JsonValue, *, ignore_order: bool) -> bool:
    """Whether two images show the same world, exactly: `1` is not `1.0`, and not `true`.

    Args:
        one: An image.
        other: Another one.
        ignore_order: Lists are compared as bags; a text beside a result is then only another way to write it.
    """
    one, other = (_comparable(image, ignore_order=ignore_order) for image in (one, other))
    return _written(one) == _written(other)


def _comparable(image: JsonValue, *, ignore_order: bool) -> JsonValue:
    return _unordered(_without_text(image)) if ignore_order else image


def _without_text(image: JsonValue) -> JsonValue:
    if not isinstance(image, dict) or image.get("result") in (None, {}):
        return image
    return {name: value for name, value in image.items() if name != "text"}


def _unordered(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _unordered(item) for name, item in value.items()}
    if isinstance(value, list):
        return cast("JsonValue", sorted((_unordered(item) for item in value), key=_written))
    return value


def _written(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
