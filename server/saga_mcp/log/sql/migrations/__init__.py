"""The history of the schema, as Alembic revisions. Imported only where there is something to create or to migrate."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_one_at_a_time: Final = Lock()
"""Alembic hands the connection to the revisions through module globals."""


def upgrade(connection: Connection) -> None:
    """Bring the schema to the newest revision inside the connection's open transaction."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    with _one_at_a_time:
        command.upgrade(config, "head")
