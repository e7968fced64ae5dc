"""Which saga log a config means: its realm, and the file of its database.

The only place that reads a database URL: whoever opens the log gets what it names.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from platformdirs import user_data_path

from saga_mcp.config.filled import Filling
from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import NOT_YET, KeyPath

_SQLITE = "sqlite:///"
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_KEY: KeyPath = ("saga", "database")


def default_realm(config: Path) -> str:
    """Return the realm of a config without a name: one for each place (S1.1)."""
    return f"{_plain(config.parent.name)}-{_short_hash(str(config))}"


def default_database(realm: str) -> Path:
    """Return the file of a realm's own database in the user's data folder."""
    name = realm if _FILE_NAME.fullmatch(realm) else f"{_plain(realm)}-{_short_hash(realm)}"
    return (user_data_path("saga-mcp", appauthor=False) / f"{name}.db").resolve()


def read_database(written: str, filling: Filling, findings: Findings) -> Path | None:
    """Return the file that `saga.database` names; None where it names none, and the problem is noted.

    What follows `sqlite:///` is a path and is taken as it is written; nothing in it is decoded.

    Args:
        written: As the config has it.
        filling: Fills in what it refers to.
        findings: Where problems go.
    """
    url = filling.text(written, _KEY)
    if url is None:
        return None
    if url.startswith(("postgresql:", "postgres:", "postgresql+")):
        findings.problem(_KEY, f"PostgreSQL is {NOT_YET}")
    elif not url.startswith(_SQLITE):
        findings.problem(_KEY, "must be sqlite:///FILE")  # never shown as it is: it may hold a password
    elif url in {_SQLITE, f"{_SQLITE}:memory:"}:
        findings.problem(_KEY, "must name a file: the saga log outlives the process")
    elif "?" in url:
        findings.problem(_KEY, "takes no options, so it cannot hold a `?`; the folder of the config can")
    else:
        return (filling.folder / Path(url.removeprefix(_SQLITE)).expanduser()).resolve()
    return None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "saga"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
