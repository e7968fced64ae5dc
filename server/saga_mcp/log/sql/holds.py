"""The rows that say which saga took hold of what last (SEMANTICS.md S9.2); whether it still does, its events tell.

Synchronous functions over a connection, inside the transaction that stores the intent: of two sagas that want the same
at once one is refused, also between processes, and nothing is left behind by one that died.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select, update
from sqlalchemy.engine import Dialect

from saga_mcp.domain.errors import ResourceHeld, SagaQuarantined
from saga_mcp.domain.events import StepPlan
from saga_mcp.domain.holding import Holder, holder
from saga_mcp.domain.state import Saga
from saga_mcp.log.sql.folds import Fold
from saga_mcp.log.sql.hot import Hot
from saga_mcp.log.sql.inserting import insert_new
from saga_mcp.log.sql.names import Names, digest
from saga_mcp.log.sql.reads import Reads
from saga_mcp.log.sql.tables import hold

_HERE: Final = (hold.c.realm == bindparam("of_realm"), hold.c.name == bindparam("of_name"))


class Holds:
    """What sagas of a database hold."""

    def __init__(self, dialect: Dialect, reads: Reads) -> None:
        self._reads = reads
        self._names = Names()
        self._insert = Hot(insert_new(hold, dialect), dialect, [column.name for column in hold.columns])
        self._last = Hot(select(hold.c.saga_id).where(*_HERE), dialect)
        self._hand_over = Hot(update(hold).where(*_HERE), dialect, ["saga_id"])
        self._free = Hot(delete(hold).where(hold.c.saga_id == bindparam("of_saga")), dialect)

    def holder(
        self, connection: Connection, realm: str, resource: str, drafts: Mapping[str, Fold] | None = None
    ) -> Holder | None:
        """Return which saga holds it.

        Args:
            connection: In whose transaction.
            realm: Whose sagas.
            resource: What it is about.
            drafts: Sagas as this transaction is about to leave them.
        """
        name = self._names.of(connection, digest(resource))
        last: str | None = self._last.value(connection, {"of_realm": realm, "of_name": name})
        if last is None:
            return None
        try:
            state = ((drafts or {}).get(last) or self._reads.current(connection, last)).saga
        except SagaQuarantined:
            return Holder(last, waits=True)  # nobody can tell what it has done with it
        return holder(state, resource)

    def take(self, connection: Connection, saga: Saga, plan: StepPlan, drafts: Mapping[str, Fold]) -> None:
        """Let `saga` have what `plan` works on.

        Raises:
            ResourceHeld: another saga has it.
        """
        holder = self.holder(connection, saga.realm, plan.resource, drafts)
        if holder is not None and holder.saga_id != saga.id:
            raise ResourceHeld(plan.tool, holder.saga_id, plan.resource, waits=holder.waits)
        name = self._names.of(connection, digest(plan.resource))
        self._insert.run(connection, {"realm": saga.realm, "name": name, "saga_id": saga.id})
        self._hand_over.run(connection, {"of_realm": saga.realm, "of_name": name, "saga_id": saga.id})

    def free(self, connection: Connection, saga: Saga) -> None:
        """Forget what a saga took that holds nothing any more."""
        if any(step.plan.resource for step in saga.steps):
            self._free.run(connection, {"of_saga": saga.id})
