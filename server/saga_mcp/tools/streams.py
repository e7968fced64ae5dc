"""What both ends of stdio need of a stream: lines out of chunks, and what the SDK asks of one besides messages.

On this layer because the lower of its two users is: the client of an upstream here, the server at the edge.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage


class Lines:
    """Lines of any length out of chunks of any size, in linear time.

    Args:
        read: The next chunk; empty at the end.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self._whole = deque[bytes]()
        self._begun: list[bytes] = []
        """Pieces of the line whose end has not come yet."""
        self._at_end = False

    async def next(self) -> bytes | None:
        """Return the next line that is not blank, without its end; None: there are no more."""
        while not self._whole:
            if self._at_end:
                return None
            chunk = await self._read()
            self._at_end = not chunk
            first, *more = chunk.split(b"\n") if chunk else (b"", b"")
            self._begun.append(first)
            for piece in more:
                if line := b"".join(self._begun).strip():
                    self._whole.append(line)
                self._begun = [piece]
        return self._whole.popleft()


class SdkStream:
    """A stream for the SDK over something that stays open when the SDK has done with it."""

    async def aclose(self) -> None:
        """Whoever made what is under it closes that."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Incoming(SdkStream):
    """The SDK's `ReadStream`."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            EndOfStream: there are no more.
        """
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
