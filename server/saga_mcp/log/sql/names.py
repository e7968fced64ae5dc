"""How what is held or locked stands in its row (SEMANTICS.md S11.4): by an HMAC, so that nobody can try out values.

A plain digest of a room number or an account could be guessed by whoever sees the rows. The key is the database's own,
so each database has other names for the same.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from sqlalchemy import Connection, select

from saga_mcp.log.sql.tables import log_meta

_KEY: Final = select(log_meta.c.hmac_key)


def digest(text: str) -> str:
    """The plain digest of a text: what a name is made of, and what it was before epoch 10."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def keyed(key: bytes, plain: str) -> str:
    """The name of that of which `plain` is a digest."""
    return hmac.new(key, plain.encode("ascii"), hashlib.sha256).hexdigest()


class Names:
    """Names as they stand in one database."""

    def __init__(self) -> None:
        self._key: bytes | None = None

    def of(self, connection: Connection, plain: str) -> str:
        """The name of that of which `plain` is a digest; inside a transaction."""
        if self._key is None:  # once: it is for as long as the database
            self._key = bytes.fromhex(str(connection.execute(_KEY).scalar_one()))
        return keyed(self._key, plain)
