"""Where Temporal is, as the config says it, and the names under which a realm is known there.

Without Temporal's SDK, so that a config can be read where that is not installed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

DEFAULT_ADDRESS: Final = "127.0.0.1:7233"
DEFAULT_NAMESPACE: Final = "default"
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalPlace:
    """A Temporal server, and what is used of it."""

    address: str = DEFAULT_ADDRESS
    """`HOST:PORT`."""
    namespace: str = DEFAULT_NAMESPACE
    task_queue: str = ""
    """Empty: one of the realm's own."""
    tls: bool = False
    api_key: str = field(default="", repr=False)
    server_ca: bytes = b""
    """PEM: whom to trust besides the system's authorities."""
    client_cert: bytes = b""
    client_key: bytes = field(default=b"", repr=False)

    def queue_of(self, realm: str) -> str:
        """The task queue on which workers of a realm listen."""
        return self.task_queue or f"saga-mcp/{_name(realm)}"


def workflow_id(realm: str, saga_id: str) -> str:
    """The id of a saga's workflow: the same wherever it is started from, and of no two sagas."""
    return f"saga-mcp/{_name(realm)}/{saga_id}"


def _name(realm: str) -> str:
    """A realm in characters that are harmless in ids and URLs; no two realms share one."""
    quoted = quote(realm, safe="")
    if len(quoted) <= _LONGEST:
        return quoted
    return f"%%{hashlib.sha256(realm.encode('utf-8', 'surrogatepass')).hexdigest()}"  # what is quoted holds no "%%"
