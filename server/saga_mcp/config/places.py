"""Where an upstream lives, for its target (SEMANTICS.md S1.2, S1.3): by its words, what fills them in, and this host.

In the config's room because only here it is known what a text said before it was filled in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

_PATH = re.compile(r"/|~|\.{1,2}[/\\]|[A-Za-z]:[/\\]")
_MACHINE = Path("/etc/machine-id")
"""Of systemd: the same until the system is installed anew."""


def places(texts: Iterable[str]) -> list[str]:
    """Return what filled-in texts say about where a server works: paths, and where URLs point to.

    What may be a secret stays out: every other text, and of a URL all but its host and, where the host is not of the
    web, what it names there (a database).
    """
    return [place for text in texts if (place := _place(text))]


def _place(text: str) -> str:
    if "://" not in text:
        return text if _PATH.match(text) else ""
    try:
        url = urlsplit(text)
        port = url.port or ""
    except ValueError:
        return ""
    named = "" if url.scheme in {"http", "https"} else url.path
    return f"{url.scheme}://{url.hostname or ''}:{port}{named}"


def this_host() -> str:
    """Return what tells this machine from others, and nothing else of it; empty where nothing does."""
    try:
        text = _MACHINE.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return hashlib.sha256(f"saga-mcp {text}".encode()).hexdigest()[:32] if text else ""
