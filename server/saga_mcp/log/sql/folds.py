"""Folded sagas: from rows to states, and a bounded store of the states that are in use.

A cached fold is a prefix of an append-only log, so it becomes old, and wrong only where a backup is restored beneath a
living process: whoever uses one has the row's `seq` and head, or the next event's link, tell that it is a prefix still,
and folds on from there. Shared by the writer and the reader of a process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple, TypeAlias

from saga_mcp.domain import machine
from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.state import Saga
from saga_mcp.log.codec import decode

StoredEvent: TypeAlias = tuple[int, str, int, str, str | None]
"""`seq`, type, version, facts and payload of one event, in this order."""


def fold_rows(saga: Saga, rows: Iterable[StoredEvent]) -> Saga:
    """Fold stored events into `saga`.

    Raises:
        SagaQuarantined: an event is missing, unreadable, or does not fit the state before it.
    """
    for seq, type_name, version, facts, payload in rows:
        if seq != saga.seq + 1:
            raise SagaQuarantined(saga.id, f"event {saga.seq + 1} is missing")
        try:
            saga = machine.apply(saga, decode(type_name, version, facts, payload))
        except Exception as error:  # whatever a damaged log does to the fold stays with this saga
            raise SagaQuarantined(saga.id, f"event {seq} cannot be read: {error}") from error
    return saga


class Fold(NamedTuple):
    """A state as the log has it."""

    saga: Saga
    head: bytes
    """The last link of its chain, which the next event is linked to."""


class Folds:
    """The most recently used states, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._folds: OrderedDict[str, Fold] = OrderedDict()
        self._lock = Lock()

    def get(self, saga_id: str) -> Fold | None:
        """The newest known state of a saga, which may be older than the log's."""
        with self._lock:
            fold = self._folds.get(saga_id)
            if fold is not None:
                self._folds.move_to_end(saga_id)
            return fold

    def put(self, fold: Fold) -> None:
        """Keep a state that is committed in the log."""
        saga_id = fold.saga.id
        with self._lock:
            known = self._folds.get(saga_id)
            if known is None or known.saga.seq < fold.saga.seq:
                self._folds[saga_id] = fold
            self._folds.move_to_end(saga_id)
            if len(self._folds) > self._limit:
                self._folds.popitem(last=False)

    def forget(self, fold: Fold) -> None:
        """Forget this state, which is none of the log any more; a newer one stays."""
        with self._lock:
            if self._folds.get(fold.saga.id) is fold:
                del self._folds[fold.saga.id]

    def drop(self, saga_ids: Iterable[str]) -> None:
        """Forget states that can no longer be trusted."""
        with self._lock:
            for saga_id in saga_ids:
                self._folds.pop(saga_id, None)
