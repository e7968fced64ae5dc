"""What became of the reply to one request, as its transport tells it to the engine (SEMANTICS.md S8.1).

At the edge because only a transport knows which replies it has written. It travels with the request, as the SDK's
`request_context`.
"""

from collections.abc import Callable
from typing import Final, cast


class WireReceipt:
    """The port's `Receipt`, with the side of the transport."""

    __slots__ = ("_is_lost", "_lost", "_written")

    def __init__(self) -> None:
        self._written: Callable[[], None] | None = None
        self._lost: Callable[[], None] | None = None
        self._is_lost = False

    def follow(self, written: Callable[[], None], lost: Callable[[], None]) -> None:
        """See `engine.port.Receipt`."""
        self._written, self._lost = written, lost
        if self._is_lost:
            lost()

    def was_written(self) -> None:
        """The reply is in the client's pipe."""
        if self._written is not None and not self._is_lost:
            self._written()

    def was_lost(self) -> None:
        """The client has given the request up, or was answered something else: final, whatever is written."""
        if self._lost is not None and not self._is_lost:
            self._lost()
        self._is_lost = True


RECEIPT: Final = "saga_mcp.receipt"
"""Where an HTTP request's scope has it."""


def receipt_of(request_context: object) -> WireReceipt | None:
    """Return what the transport gave with a request; None from one that cannot tell."""
    scope: object = getattr(request_context, "scope", None)
    given = cast("dict[str, object]", scope).get(RECEIPT) if isinstance(scope, dict) else request_context
    return given if isinstance(given, WireReceipt) else None
