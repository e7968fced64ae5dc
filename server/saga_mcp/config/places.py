"""Where an upstream lives, for its target (SEMANTICS.md S1.2, S1.3): by its words, what fills them in, and this host.

In the config's room because only here it is known what a text said before it was filled in.
"""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from saga_mcp.config.findings import Findings

_PATH = re.compile(r"/|~|\.{1,2}[/\\]|[A-Za-z]:[/\\]")
HOST: Final = "SAGA_MCP_HOST"
"""Variable that names the machine, for where the system's id is missing, or another at each start (containers)."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
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


def this_host(environ: Mapping[str, str], findings: Findings, *, one_of_many: bool) -> str:
    """Return the id of this machine, or of what stands for one: `SAGA_MCP_HOST`, else the system's; empty: it has none.

    Of the system's id only a hash is told, after the name that people know the machine by (`domain.hosts`). A system
    without one, as a container, is known by its name where it is one of many: a container that was made anew is
    another machine then, and two that nobody has named are never taken for one.

    Args:
        environ: the environment.
        findings: are told what is wrong with it.
        one_of_many: the log can be reached from other machines.
    """
    named = environ.get(HOST, "").strip()
    if named:
        if not _NAME.fullmatch(named):
            findings.problem((HOST,), "names a machine: at most 64 letters, digits, dots, - and _")
        return named
    called = socket.gethostname()
    key = _machine_key() or (_hash(f"named {called}") if one_of_many else "")
    name = "".join(char if _NAME.fullmatch(char) else "-" for char in called)[:64]
    return f"{name or 'unnamed'}/{key}" if key else ""


def is_known_by_name_only(host: str) -> bool:
    """Whether a host id, of this machine, was made of nothing but its name."""
    return host.rpartition("/")[2] == _hash(f"named {socket.gethostname()}")


def _machine_key() -> str:
    try:
        text = _MACHINE.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return _hash(text) if text else ""


def _hash(text: str) -> str:
    return hashlib.sha256(f"saga-mcp {text}".encode()).hexdigest()[:32]
