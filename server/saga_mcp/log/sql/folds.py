"""Folded sagas: from rows to states, and a bounded store of the states that are in use.

A cached fold is a prefix of an append-only log, so it never becomes wrong, only old: whoever uses one compares its
`seq` with the row, and folds on from there. Shared by the writer and the reader of a process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import TypeAlias

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


class Folds:
    """The most recently used states, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sagas: OrderedDict[str, Saga] = OrderedDict()
        self._lock = Lock()

    def get(self, saga_id: str) -> Saga | None:
        """The newest known state of a saga, which may be older than the log's."""
        with self._lock:
            saga = self._sagas.get(saga_id)
            if saga is not None:
                self._sagas.move_to_end(saga_id)
            return saga

    def put(self, saga: Saga) -> None:
        """Keep a state that is committed in the log."""
        with self._lock:
            known = self._sagas.get(saga.id)
            if known is None or known.seq < saga.seq:
                self._sagas[saga.id] = saga
            self._sagas.move_to_end(saga.id)
            if len(self._sagas) > self._limit:
                self._sagas.popitem(last=False)

    def drop(self, saga_ids: Iterable[str]) -> None:
        """Forget states that can no longer be trusted."""
        with self._lock:
            for saga_id in saga_ids:
                self._sagas.pop(saga_id, None)
