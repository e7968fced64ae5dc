"""Which saga log a config means: its realm, and where its database is.

The only place that reads a database URL: whoever opens the log gets what it names.
"""

from __future__ import annotations

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from platformdirs import user_data_path

from saga_mcp.config.filled import Filling
from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import KeyPath
from saga_mcp.log.place import FilePlace, LogPlace, ServerPlace

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_KEY: KeyPath = ("saga", "database")
_TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""Options of the URL that name files. A client starts servers in any folder, so their paths have to be whole."""


def default_realm(config: Path) -> str:
    """Return the realm of a config without a name: one for each place (S1.1)."""
    return f"{_plain(config.parent.name)}-{_short_hash(str(config))}"


def default_database(realm: str) -> FilePlace:
    """Return the file of a realm's own database in the user's data folder."""
    name = realm if _FILE_NAME.fullmatch(realm) else f"{_plain(realm)}-{_short_hash(realm)}"
    return FilePlace((_data_folder() / f"{name}.db").resolve())


def read_database(written: str, filling: Filling, findings: Findings) -> LogPlace | None:
    """Return what `saga.database` names; None where it names nothing, and the problem is noted.

    What follows `sqlite:///` is a path and is taken as it is written; nothing in it is decoded.

    Args:
        written: As the config has it.
        filling: Fills in what it refers to.
        findings: Where problems go.
    """
    url = filling.text(written, _KEY)
    if url is None:
        return None
    if url.startswith(_POSTGRES):
        return _server(url, findings)
    if url.startswith("postgresql+"):
        findings.problem(_KEY, "must be postgresql://..., without the name of a driver")
    elif not url.startswith(_SQLITE):
        findings.problem(_KEY, "must be sqlite:///FILE or postgresql://...")  # as it is it may hold a password
    elif url in {_SQLITE, f"{_SQLITE}:memory:"}:
        findings.problem(_KEY, "must name a file: the saga log outlives the process")
    elif "?" in url:
        findings.problem(_KEY, "takes no options, so it cannot hold a `?`; the folder of the config can")
    else:
        return FilePlace((filling.folder / Path(url.removeprefix(_SQLITE)).expanduser()).resolve())
    return None


def _server(url: str, findings: Findings) -> ServerPlace | None:
    """A database of a server. Nothing of a URL that cannot be read is shown: it holds a password."""
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2]
        port = None if "," in hosts else parts.port
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        findings.problem(
            _KEY, "cannot be read as a URL: postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for an @ in them"
        )
        return None
    database = unquote(parts.path.removeprefix("/")) or options.get("dbname", "")
    if not database or "/" in database:
        findings.problem(_KEY, "must name a database of its own: postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
        return None
    for option in _TLS_FILES:
        file = options.get(option)
        if file is not None and not (Path(file).is_absolute() and Path(file).is_file()):
            findings.problem(_KEY, f"{option} must name a file that is there, with its whole path")
            return None
    if find_spec("asyncpg") is None or find_spec("greenlet") is None:
        findings.problem(_KEY, 'PostgreSQL needs one more package: pip install "saga-mcp[postgres]"')
        return None
    host = unquote(parts.hostname or "") or options.get("host", "localhost")
    where = hosts if "," in hosts else f"{host}:{port or options.get('port', 5432)}"
    name = f"postgresql://{where}/{database}"
    beside = _data_folder() / f"postgresql-{_plain(database)}-{_short_hash(name)}"
    return ServerPlace(url=url, name=name, beside=beside.resolve())


def _data_folder() -> Path:
    return user_data_path("saga-mcp", appauthor=False)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "saga"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
