"""The connection to Temporal, and wake-ups sent over it.

Temporal's client is a bridge to code that does not like to be cancelled in the middle: each call has a time limit of
its own, and is shielded from whoever stops waiting for it.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

import anyio
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, TLSConfig

from saga_mcp.engine.drivers.temporal.messages import WAKE, WORKFLOW, Order
from saga_mcp.engine.drivers.temporal.place import TemporalPlace, workflow_id

_CALL_WITHIN: Final = timedelta(seconds=3)
_NOT_ACCEPTED: Final = re.compile(r"InvalidCertificate\((\w+)")


class TemporalUnreachable(Exception):
    """Temporal did not take a call; the message says why, without any secret."""


class TemporalConnection:
    """One process's connection for one realm; made when it is first used, and mended by the SDK where it breaks.

    It keeps the key and the certificates that it was made with.
    """

    def __init__(self, place: TemporalPlace, realm: str, identity: str) -> None:
        self._place = place
        self._realm = realm
        self._identity = identity
        self._client: Client | None = None
        self._turn = anyio.Lock()

    async def client(self) -> Client:
        """The connected client.

        Raises:
            TemporalUnreachable: nobody answers there.
        """
        if self._client is None:
            with anyio.CancelScope(shield=True):
                async with self._turn:
                    if self._client is None:
                        self._client = await self._connected()
        assert self._client is not None  # noqa: S101 - raised otherwise
        return self._client

    async def tell(self, saga_id: str, *, signal: bool) -> None:
        """Start the saga's workflow where none runs; `signal`: have it look also where one does (S12.3).

        Raises:
            TemporalUnreachable: it is not known whether it was told.
        """
        client = await self.client()
        with anyio.CancelScope(shield=True):
            try:
                await client.start_workflow(
                    WORKFLOW,
                    Order(self._realm, saga_id),
                    id=workflow_id(self._realm, saga_id),
                    task_queue=self._place.queue_of(self._realm),
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    start_signal=WAKE if signal else None,
                    rpc_timeout=_CALL_WITHIN,
                )
            except RPCError as error:
                raise self._unreachable(error) from error

    async def _connected(self) -> Client:
        place = self._place
        tls: bool | TLSConfig = place.tls
        if place.server_ca or place.client_cert:
            tls = TLSConfig(
                server_root_ca_cert=place.server_ca or None,
                client_cert=place.client_cert or None,
                client_private_key=place.client_key or None,
            )
        try:
            return await Client.connect(
                place.address,
                namespace=place.namespace,
                api_key=place.api_key or None,
                tls=tls,
                identity=self._identity,
                connect_timeout=_CALL_WITHIN,
            )
        except (RuntimeError, RPCError, ValueError) as error:  # the first is what a refused connection comes as
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> TemporalUnreachable:
        reason = error.status.name.lower().replace("_", " ") if isinstance(error, RPCError) else _why(str(error))
        return TemporalUnreachable(f"Temporal at {self._place.address} (namespace {self._place.namespace}): {reason}")


def _why(said: str) -> str:
    """What a person can mend, by what the SDK's Rust core says; it has no types for these."""
    if certificate := _NOT_ACCEPTED.search(said):
        return f"its certificate is not accepted ({certificate[1]}); see [temporal] server_ca and the host in address"
    if "PrivateKeyParseError" in said:
        return "[temporal] client_key is no private key in PEM"
    return "no connection"
