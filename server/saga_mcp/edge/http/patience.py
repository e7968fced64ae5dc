"""How long a connection is kept for a client that does not get on with its request.

Else a few hundred that say half a word, before any token is looked at, would take every descriptor of the process.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """HTTP/1.1 over one connection, which waits for a request so long and no longer.

    Between two requests Uvicorn's own limit holds (`timeout_keep_alive`).
    """

    head_s: ClassVar[float] = 30.0
    """For the whole head of a request, in seconds: from its first byte, or from the connection."""
    body_s: ClassVar[float] = 30.0
    """Between two pieces of its body, in seconds."""
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as Uvicorn has it
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._expect(self.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        match self.conn.their_state:
            case h11.IDLE:
                if self._late is None:
                    self._expect(self.head_s)
            case h11.SEND_BODY:
                self._expect(self.body_s)
            case _:
                self._forget()

    def on_response_complete(self) -> None:
        """See Uvicorn: it counts from now on."""
        self._forget()
        super().on_response_complete()

    def _expect(self, within_s: float) -> None:
        self._forget()
        self._late = self.loop.call_later(within_s, self._give_up)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()
