"""One batch of decisions in one transaction (S10.1): the only code that writes events.

A synchronous function over a SQLAlchemy connection, so that every database runs the same code: SQLite in the writer's
thread, PostgreSQL through `AsyncConnection.run_sync`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from sqlalchemy import (
    Boolean,
    Connection,
    Float,
    Table,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ColumnElement

from saga_mcp.domain.alerts import Alert, alerts
from saga_mcp.domain.draft import after
from saga_mcp.domain.errors import LogConflict, SagaNotFound, SagaQuarantined
from saga_mcp.domain.events import Event
from saga_mcp.domain.holding import taken
from saga_mcp.domain.state import Saga
from saga_mcp.log.chain import START
from saga_mcp.log.codec import dump_json
from saga_mcp.log.port import Append, Decide, Decided, Opening, PairRow, SagaKeyTaken, StepLock
from saga_mcp.log.sealing import LogKeyMissing
from saga_mcp.log.sql.ahead import Ahead
from saga_mcp.log.sql.driver_names import DriverNames
from saga_mcp.log.sql.folds import Fold, Folds
from saga_mcp.log.sql.holds import Holds
from saga_mcp.log.sql.hot import Hot
from saga_mcp.log.sql.inserting import insert_new
from saga_mcp.log.sql.locks import Locks
from saga_mcp.log.sql.outbox import OutboxRows
from saga_mcp.log.sql.pauses import Pauses
from saga_mcp.log.sql.projection import identity, projection
from saga_mcp.log.sql.reads import Found, Reads
from saga_mcp.log.sql.rows import NO_VALUES, EventRows
from saga_mcp.log.sql.tables import EPOCH, log_key, log_meta, pair, realm, saga, saga_event
from saga_mcp.log.sql.trouble import NOTHING, LogUpgraded

Outcome: TypeAlias = Decided | BaseException
"""What a caller gets: the decided states, or what it has to raise."""

ROUNDS = 3
"""Times a decision is run before it counts as having lost for good: on the cached fold, and on what was reloaded."""


@dataclass(frozen=True, slots=True)
class Written:
    """A transaction that is ready to be committed, or was."""

    outcomes: Sequence[Outcome]
    folds: Sequence[Fold]
    mark: Append | None
    """By which the batch can be found again; None: nothing was written."""


class CommitUnsettled(Exception):
    """COMMIT failed in a way that leaves open whether the batch is stored."""

    def __init__(self, written: Written, mark: Append, cause: Exception) -> None:
        self.written = written
        self.mark = mark
        self.cause = cause
        super().__init__(str(cause))


@dataclass(slots=True)
class _Draft:
    """What the decisions of one saga come to, before anything is written."""

    before: Saga
    saga: Saga
    head: bytes = START
    follows: bytes = START
    """The head before."""
    outcomes: list[Outcome] = field(default_factory=list["Outcome"])
    opened: list[_Draft] = field(default_factory=list["_Draft"])
    """Sagas that begin together with what is appended to this one."""
    rows: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    pairs: list[PairRow] = field(default_factory=list[PairRow])
    alerts: list[Alert] = field(default_factory=list[Alert])


class _Take(Protocol):
    """Lets a saga have what its events work on, or refuses them."""

    def __call__(self, saga: Saga, events: Sequence[Event], lock: StepLock | None = None) -> None: ...


class Batches:
    """Runs batches over one connection."""

    def __init__(
        self, dialect: Dialect, folds: Folds, rows: EventRows, *, clock: Callable[[], float], outbox: bool = False
    ) -> None:
        self._folds = folds
        self._clock = clock
        self._rows = rows
        self.reads = Reads(dialect, folds, rows)
        """For whoever uses the same connection."""
        self.locks = Locks(dialect, self.reads)
        """The same."""
        self._holds = Holds(dialect, self.reads)
        self._outbox = OutboxRows(dialect)
        self._keeps_alerts = outbox
        self._pauses = Pauses()
        self._driver_names = DriverNames()
        keys = _keys(dialect)
        self._meta = Hot(select(log_meta.c.epoch, log_meta.c.pauses, keys), dialect)
        self._ahead = Ahead(dialect, folds, keys) if dialect.name == "postgresql" else None
        self._key = _insert_new(log_key, dialect)
        self._wipe = Hot(update(saga_event).where(saga_event.c.saga_id == bindparam("of_saga")), dialect, [*NO_VALUES])
        at_row = (
            saga.c.id == bindparam("row_id"),
            saga.c.seq == bindparam("row_seq"),
            saga.c.head.is_not_distinct_from(bindparam("row_head")),
        )
        self._move = Hot(
            update(saga).where(*at_row).values(idle_from_s=_GOES_ON_IDLING, ended_at=_ENDED, wiped_at=_WIPED),
            dialect,
            _MOVED,
        )
        self._open = _insert_new(saga, dialect, idle_from_s=_STARTS_IDLING, ended_at=null(), wiped_at=null())
        self._watch = _insert_new(realm, dialect)
        self._raise = Hot(
            update(realm)
            .where(realm.c.name == bindparam("of_realm"), realm.c.observed_s == bindparam("seen"))
            .values(observed_s=realm.c.observed_s + bindparam("seconds")),
            dialect,
        )
        self._watched = Hot(_WATCHED_S, dialect)
        self._append = Hot(saga_event.insert(), dialect)
        self._freeze = _insert_new(pair, dialect)
        self._texts: dict[str, str] = {}
        """Pairs as they are stored, by hash: each call freezes its own, and there are as many as there are tools."""

    def run(self, connection: Connection, requests: Sequence[tuple[str, Decide]], batch_id: str) -> Sequence[Outcome]:
        """Run the decisions, each on the state its predecessors left, and store their events.

        Raises:
            CommitUnsettled: it is not known whether the batch is stored.
            LogUpgraded: the schema is no longer the one this code writes.
            sqlalchemy.exc.DBAPIError: nothing was stored.
        """
        transaction = connection.begin()
        try:
            written = self._write(connection, requests, batch_id)
        except BaseException:
            transaction.rollback()
            raise
        self._commit(transaction.commit, written)
        for fold in written.folds:
            if fold.saga.final:
                self._folds.drop([fold.saga.id])  # rarely asked for again
            else:
                self._folds.put(fold)
        return written.outcomes

    def observe(self, connection: Connection, name: str, seen: float, seconds: float) -> float:
        """Raise the time for which a realm was watched, if it still is `seen`; what it is now (S9.4).

        Raises:
            LogUpgraded: the schema is no longer the one this code writes.
            sqlalchemy.exc.DBAPIError: it is not known whether anything was stored.
        """
        with connection.begin():
            self.checked(connection)
            self._watch.run(connection, {"name": name, "observed_s": 0.0})
            self._raise.run(connection, {"of_realm": name, "seen": seen, "seconds": seconds})
            watched_s: float = self._watched.value(connection, {"of_realm": name})
        return watched_s

    def _commit(self, commit: Callable[[], None], written: Written) -> None:
        try:
            commit()
        except Exception as error:
            if written.mark is None:
                raise
            self._folds.drop(fold.saga.id for fold in written.folds)
            raise CommitUnsettled(written, written.mark, error) from error

    def _write(self, connection: Connection, requests: Sequence[tuple[str, Decide]], batch_id: str) -> Written:
        by_saga: dict[str, list[int]] = {}
        for index, (saga_id, _) in enumerate(requests):
            by_saga.setdefault(saga_id, []).append(index)
        ahead: Mapping[str, Found] = {}
        if self._ahead is None:
            change = self.checked(connection)
        else:
            meta, ahead = self._ahead.read(connection, by_saga)
            change = self._check(*meta)
        self._pauses.refresh(connection, change)
        self._driver_names.refresh(connection, change)
        outcomes: dict[int, Outcome] = {}
        pairs: dict[str, PairRow] = {}
        folds: dict[str, Fold] = {}
        drafts: list[_Draft] = []
        # In one order everywhere: two processes whose batches share sagas must not wait for each other.
        for saga_id, indices in sorted(by_saga.items()):
            decides = [requests[index][1] for index in indices]
            draft = self._decide(connection, saga_id, decides, batch_id, folds, ahead.get(saga_id))
            outcomes.update(zip(indices, draft.outcomes, strict=True))
            pairs.update({one.hash: one for one in draft.pairs})
            if draft.saga.opened:
                folds[saga_id] = Fold(draft.saga, draft.head)
            folds.update({each.saga.id: Fold(each.saga, each.head) for each in draft.opened})
            drafts += [each for each in (draft, *draft.opened) if each.rows]
        rows = [row for draft in drafts for row in draft.rows]
        if pairs:
            frozen = [{"hash": each, "content": self._text(pairs[each])} for each in sorted(pairs)]
            self._freeze.run_many(connection, frozen)
        if rows:
            self._append.run_many(connection, rows)
            if self._rows.writes_with is not None:
                self._key.run(connection, {"id": self._rows.writes_with})
        for draft in drafts:
            told = draft.alerts if self._keeps_alerts else ()
            self._outbox.write(connection, draft.before, draft.saga, told, draft.rows[-1]["at"])
            if draft.saga.wiped and not draft.before.wiped:
                self._wipe.run(connection, {**NO_VALUES, "of_saga": draft.saga.id})
        mark = Append(rows[0]["saga_id"], rows[0]["seq"], batch_id) if rows else None
        return Written([outcomes[index] for index in range(len(requests))], [*folds.values()], mark)

    def _text(self, row: PairRow) -> str:
        return self._texts.get(row.hash) or self._texts.setdefault(row.hash, dump_json(row.content))

    def checked(self, connection: Connection) -> int:
        """Return the number of the newest pause, once it is known that this process may write.

        Raises:
            LogUpgraded: the schema is not the one this code writes.
            LogKeyMissing: another process encrypts with a key that is not here: this one would write in clear.
        """
        return self._check(*self._meta.row(connection, {}))

    def _check(self, epoch: int, pauses: int, keys: str | None) -> int:
        if epoch == EPOCH:
            self._rows.require(keys or "")
            return int(pauses)
        raise LogUpgraded(f"restart saga-mcp: the saga log was upgraded (schema {epoch}, not {EPOCH}); {NOTHING}")

    def _decide(
        self,
        connection: Connection,
        saga_id: str,
        decides: Sequence[Decide],
        batch_id: str,
        others: Mapping[str, Fold],
        found: Found | None,
    ) -> _Draft:
        """Decide on what was found ahead, or the cached fold; where that was old, on what is new."""

        def take(saga: Saga, events: Sequence[Event], lock: StepLock | None = None) -> None:
            if lock is not None and events:
                self.locks.require(connection, lock)
            self._pauses.check(saga, events)
            for plan in taken(events):
                self._holds.take(connection, saga, plan, others)

        base = self._folds.get(saga_id) if found is None else None
        try:
            for _ in range(ROUNDS):
                fresh = base is None
                if base is None:
                    base = (
                        self.reads.current(connection, saga_id)
                        if found is None
                        else self.reads.after(connection, found)
                    )
                    found = None
                draft = self._draft(base, decides, batch_id, take)
                if not draft.rows:
                    if not base.saga.opened:
                        missing = self.reads.missing(connection, saga_id)
                        draft.outcomes = [missing if isinstance(o, SagaNotFound) else o for o in draft.outcomes]
                    if fresh or self.reads.is_now(connection, base):
                        return draft
                elif self._swap(connection, draft):
                    for each in draft.opened:
                        self._swap(connection, each)
                    return draft
                base = None
            lost = LogConflict(f"other processes kept changing saga {saga_id} first; {NOTHING}. Try again.")
        except (SagaQuarantined, SagaKeyTaken, LogKeyMissing) as error:
            return _Draft(Saga(id=saga_id), Saga(id=saga_id), outcomes=[error] * len(decides))
        return _Draft(Saga(id=saga_id), Saga(id=saga_id), outcomes=[lost] * len(decides))

    def _draft(self, base: Fold, decides: Sequence[Decide], batch_id: str, take: _Take) -> _Draft:
        draft = _Draft(base.saga, *base, follows=base.head)
        at = self._clock()
        for decide in decides:
            state = draft.saga
            try:
                decision = decide(state)
                then = after(state, decision.events)
                told = alerts(state, then)
                rows, head = self._rows.written(Fold(state, draft.head), decision.events, at=at, batch_id=batch_id)
                take(then, decision.events, decision.lock)
                self._driver_names.check(then.realm, decision.events, decision.driver)
                opened: list[_Draft] = []
                if decision.opens is not None:
                    opened.append(self._opened(decision.opens, batch_id, at))
                    take(opened[0].saga, decision.opens.events)
                of_others = (alert for other in opened for alert in other.alerts)
                decided = Decided(before=state, saga=then, alerts=(*told, *of_others))
            except DBAPIError:
                raise  # of the database, not of a decision
            except BaseException as error:  # noqa: BLE001 - raised to the caller whose decision it was; its neighbours go on
                draft.outcomes.append(error)
                continue
            draft.outcomes.append(decided)
            draft.saga, draft.head = decided.saga, head
            draft.opened += opened
            draft.rows += rows
            draft.pairs += decision.pairs
            draft.alerts += told
        return draft

    def _opened(self, opening: Opening, batch_id: str, at: float) -> _Draft:
        """A saga that begins together with what is appended to another one."""
        new = Saga(id=opening.saga_id)
        saga = after(new, opening.events)
        rows, head = self._rows.written(Fold(new, START), opening.events, at=at, batch_id=batch_id)
        return _Draft(new, saga, head, rows=[*rows], alerts=[*alerts(new, saga)])

    def _swap(self, connection: Connection, draft: _Draft) -> bool:
        """Move the row to what was drafted; False: it is no longer where the draft began."""
        old, new = draft.before, draft.saga
        row = {**projection(new, self._clock()), "head": draft.head}
        if old.opened:
            if not row["open"]:
                self._holds.free(connection, new)
            # The seq alone may be the same in another history, where a backup was restored.
            here = {"row_id": old.id, "row_seq": old.seq, "row_head": None if draft.follows == START else draft.follows}
            return self._move.run(connection, {**row, **here}) == 1
        values = {
            **row,
            **identity(new),
            "opened_at": row["updated_at"],
            "chained_from": 1,
        }
        if self._open.run(connection, values) == 1:
            return True
        self._raise_if_key_is_taken(connection, new)
        return False

    def _raise_if_key_is_taken(self, connection: Connection, new: Saga) -> None:
        if not new.key:
            return
        statement = select(saga.c.id).where(
            saga.c.realm == new.realm, saga.c.caller == new.caller, saga.c.key == new.key, saga.c.id != new.id
        )
        holder: str | None = connection.execute(statement).scalar()
        if holder is not None:
            raise SagaKeyTaken(new.key, holder)


_MOVED = ("phase", "state", "driver", "busy", "open", "items", "steps", "seq", "updated_at", "reverted_by", "head")

_WATCHED_S = select(realm.c.observed_s).where(realm.c.name == bindparam("of_realm"))
_NOW = func.coalesce(_WATCHED_S.scalar_subquery(), literal_column("0.0"))
_STARTS_IDLING = case((bindparam("idles", type_=Boolean), _NOW))
_GOES_ON_IDLING = case((bindparam("idles", type_=Boolean), func.coalesce(saga.c.idle_from_s, _NOW)))
"""Since it last did something; null while it does (S9.4)."""
_AT = bindparam("now", type_=Float)
_ENDED = case((bindparam("ends", type_=Boolean), func.coalesce(saga.c.ended_at, _AT)))
"""When it became final, of whatever was appended since; null: it is not, or not any more (S5.5)."""
_WIPED = case((bindparam("wipes", type_=Boolean), func.coalesce(saga.c.wiped_at, _AT)))


def _keys(dialect: Dialect) -> ColumnElement[str]:
    """The names of the keys that the log needs, separated by blanks; null: none."""
    join = func.string_agg if dialect.name == "postgresql" else func.group_concat
    return select(join(log_key.c.id, literal_column("' '"))).scalar_subquery()


def _insert_new(table: Table, dialect: Dialect, **computed: ColumnElement[Any]) -> Hot:
    """Insert unless it is there; all columns but the `computed` ones are parameters."""
    given = [column.name for column in table.columns if column.name not in computed]
    return Hot(insert_new(table, dialect).values(computed), dialect, given)
