"""JSON as editors keep it, with comments and trailing commas, read as the JSON that it means. Pure.

Only reading: no maintained library writes such a file back as it was without a Node beside it, so whoever would have to
change one with comments leaves that to its owner.
"""

from __future__ import annotations

import re

_TEXT = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_TEXT}|(?P<comment>//[^\r\n]*|/\*.*?\*/)", re.DOTALL)
_COMMA = re.compile(rf"{_TEXT}|(?P<comma>,)(?=\s*[}}\]])", re.DOTALL)
_INK = re.compile(r"[^\r\n]")


def plain(text: str) -> str:
    """Return the JSON of a text, with blanks where there were comments and trailing commas: places stay the same."""
    return _COMMA.sub(lambda found: " " if found["comma"] else found[0], _without_comments(text))


def has_comments(text: str) -> bool:
    """Return whether a text holds anything that its JSON does not say; a trailing comma says nothing."""
    return _without_comments(text) != text


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: _INK.sub(" ", found[0]) if found["comment"] else found[0], text)
