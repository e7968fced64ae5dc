"""Events as rows of `saga_event`: the only code that knows in which columns values stand, and how they are protected.

Of values there is a commitment in each row (see `log.chain`), whether they are encrypted or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from saga_mcp.domain.errors import LogUnavailable, SagaQuarantined
from saga_mcp.domain.events import Event
from saga_mcp.log.chain import SALT_BYTES, Facts, commitment, link, new_salt
from saga_mcp.log.codec import encode
from saga_mcp.log.sealing import Keyring, Sealed
from saga_mcp.log.sql.folds import Fold, StoredEvent
from saga_mcp.log.sql.tables import saga_event

NO_VALUES: Final[Mapping[str, None]] = {"payload": None, "salt": None, "sealed": None, "key_id": None}
"""The columns of values where there are none, or none any more."""

READ_COLUMNS: Final = tuple(
    saga_event.c[name] for name in ("seq", "type", "version", "facts", "payload", "sealed", "key_id")
)
StoredRow: TypeAlias = tuple[int, str, int, str, str | None, bytes | None, str | None]


class EventRows:
    """Makes rows of events and events of rows."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    @property
    def writes_with(self) -> str | None:
        """The name of the key that new values are encrypted with; None: they are not."""
        return next(iter(self._keyring.ids), None)

    def require(self, names: str) -> None:
        """Check that these keys, separated by blanks, are here.

        Raises:
            LogKeyMissing: one is not.
        """
        self._keyring.require(names.split())

    def written(
        self, base: Fold, events: Sequence[Event], *, at: float, batch_id: str
    ) -> tuple[Sequence[Mapping[str, Any]], bytes]:
        """Return the rows of what is appended to `base`, and the link of the last."""
        rows: list[Mapping[str, Any]] = []
        saga_id, head = base.saga.id, base.head
        for seq, stored in enumerate(map(encode, events), base.saga.seq + 1):
            facts = Facts(saga_id, seq, stored.type, stored.version, at, batch_id, stored.facts)
            values, committed = self._protected(saga_id, seq, stored.payload)
            head = link(head, facts, committed)
            rows.append({**facts._asdict(), **values, "committed": committed, "link": head})
        return rows, head

    def _protected(self, saga_id: str, seq: int, payload: str | None) -> tuple[Mapping[str, Any], bytes | None]:
        """The columns of an event's values, and the commitment to them."""
        if payload is None:
            return NO_VALUES, None
        salt = new_salt()
        committed = commitment(salt, payload)
        if self.writes_with is None:
            return {**NO_VALUES, "payload": payload, "salt": salt}, committed
        # The salt is encrypted too: with it and the commitment a value that is easy to guess could be found.
        sealed = self._keyring.seal(saga_id, seq, salt + payload.encode("ascii"))
        return {**NO_VALUES, "sealed": sealed.box, "key_id": sealed.key_id}, committed

    def read(self, saga_id: str, rows: Iterable[StoredRow]) -> Iterator[StoredEvent]:
        """Return rows of `READ_COLUMNS` with their values readable.

        Raises:
            SagaQuarantined: values cannot be decrypted.
            LogKeyMissing: their key is not here.
        """
        for seq, kind, version, facts, payload, box, key_id in rows:
            if box is not None and key_id is not None:
                try:
                    payload = self.unsealed(saga_id, seq, Sealed(key_id, box))[1]  # noqa: PLW2901 - the same, readable
                except LogUnavailable:
                    raise
                except Exception as error:
                    raise SagaQuarantined(saga_id, f"the values of event {seq} cannot be decrypted") from error
            yield seq, kind, version, facts, payload

    def unsealed(self, saga_id: str, seq: int, sealed: Sealed) -> tuple[bytes, str]:
        """Return salt and payload of an event.

        Raises:
            LogKeyMissing: their key is not here.
            cryptography.exceptions.InvalidTag, ValueError: they were changed.
        """
        values = self._keyring.open(saga_id, seq, sealed)
        return values[:SALT_BYTES], values[SALT_BYTES:].decode("ascii")
