"""The tables of the saga log, as SQLAlchemy Core sees them. The migrations create them; a test holds the two together.

`saga` is a projection: everything in it but `idle_from_s` can be rebuilt from `saga_event`. It exists for lists and for
the compare-and-set on its `seq`. `idle_from_s` is the realm's `observed_s` when the saga began to idle; null: it does
not. `head` is the last link of its chain: without it nobody would see that the end was cut off. Their indices stand
apart, in `indices`: to name a dialect there loads it, and no statement needs them.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

EPOCH: Final = 13
"""Number of the schema that this code writes; raised by every migration (S10.3)."""

metadata: Final = MetaData()

realm: Final = Table(
    "saga_realm",
    metadata,
    Column("name", String, primary_key=True),
    Column("observed_s", Float, nullable=False),
    sqlite_with_rowid=False,
)
"""How long each realm has been watched by a living process: the clock of idle time (S9.4)."""

log_meta: Final = Table(
    "saga_log_meta",
    metadata,
    Column("only_row", Integer, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("pauses", Integer, nullable=False),
    Column("hmac_key", String, nullable=False),
)
"""One row. `pauses` is raised by each change of `saga_pause` and of `saga_driver`, so that a batch learns of it without
a statement of its own. `hmac_key` is random, and never leaves the database (S11.4)."""

saga: Final = Table(
    "saga",
    metadata,
    Column("id", String, primary_key=True),
    Column("realm", String, nullable=False),
    Column("caller", String, nullable=False),
    Column("conversation", String, nullable=False),
    Column("key", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("phase", String, nullable=False),
    Column("state", String, nullable=False),
    Column("driver", String, nullable=False),
    Column("busy", Boolean, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("items", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("idle_from_s", Float),
    Column("reverted_by", String, nullable=False, server_default=""),
    Column("head", LargeBinary),
    Column("chained_from", Integer, nullable=False, server_default="1"),
    Column("ended_at", Float),
    Column("wiped_at", Float),
    sqlite_with_rowid=False,
)

saga_event: Final = Table(
    "saga_event",
    metadata,
    Column("saga_id", String, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("type", String, nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Column("batch_id", String, nullable=False),
    Column("facts", Text, nullable=False),
    Column("payload", Text),
    Column("salt", LargeBinary),
    Column("sealed", LargeBinary),
    Column("key_id", String),
    Column("committed", LargeBinary),
    Column("link", LargeBinary),
    sqlite_with_rowid=False,
)
"""Values stand in `payload`, with `salt`; or, encrypted together, in `sealed`. Nothing else holds any (S11.4).

Where `committed` is set and both are null, they were wiped. `link` is null of what was stored before epoch 8."""

tombstone: Final = Table(
    "saga_tombstone",
    metadata,
    Column("id", String, primary_key=True),
    Column("realm", String, nullable=False),
    Column("caller", String, nullable=False),
    Column("phase", String, nullable=False),
    Column("summary", String, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("head", LargeBinary),
    Column("ended_at", Float, nullable=False),
    Column("pruned_at", Float, nullable=False),
    sqlite_with_rowid=False,
)
"""What is left of a saga that was pruned."""

log_key: Final = Table("saga_log_key", metadata, Column("id", String, primary_key=True), sqlite_with_rowid=False)
"""Names of the keys that something in the log is encrypted with."""

step_lock: Final = Table(
    "saga_step_lock",
    metadata,
    Column("realm", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("saga_id", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("token", String, nullable=False),
    sqlite_with_rowid=False,
)
"""What a step works on, by an HMAC, and which call has it (S5.3)."""

hold: Final = Table(
    "saga_hold",
    metadata,
    Column("realm", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("saga_id", String, nullable=False),
    sqlite_with_rowid=False,
)
"""Which saga took hold of what last, by an HMAC; whether it still holds it, its events tell (S9.2)."""

pause: Final = Table(
    "saga_pause",
    metadata,
    Column("realm", String, primary_key=True),
    Column("tool", String, primary_key=True),
    Column("by_whom", String, nullable=False),
    Column("note", String, nullable=False),
    Column("at", Float, nullable=False),
    sqlite_with_rowid=False,
)
"""Tools that a person has paused."""

driver: Final = Table(
    "saga_driver",
    metadata,
    Column("realm", String, primary_key=True),
    Column("name", String, nullable=False),
    sqlite_with_rowid=False,
)
"""Which driver brings a realm's sagas to rest (S12.2)."""

outbox: Final = Table(
    "saga_outbox",
    metadata,
    Column("saga_id", String, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("realm", String, nullable=False),
    Column("type", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("at", Float, nullable=False),
    Column("data", Text, nullable=False),
    Column("waits_from_s", Float, nullable=False),
    Column("owner", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float),
    Column("parked", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
"""Alerts to be delivered, by saga and in order (S10.6). `due_at` is null behind another one of the saga, and where they
are kept back; `waits_from_s` is the realm's `observed_s` when it was written."""

pair: Final = Table(
    "saga_pair",
    metadata,
    Column("hash", String, primary_key=True),
    Column("content", Text, nullable=False),
)

owner: Final = Table(
    "saga_owner",
    metadata,
    Column("id", String, primary_key=True),
    Column("lock", BigInteger, nullable=False),
    Column("place", String, nullable=False),
    Column("host", String, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("serves", String, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("server_started", String, nullable=False),
    Column("beats", Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""Processes that use the database, where it is a server's (S10.4); a file's are told by locked files beside it.

`lock` is the advisory lock that a living one holds, and `place` the folder in which it also holds a file locked;
`server_started` says in which life of the server it took the lock, and `beats` is raised while it works."""
