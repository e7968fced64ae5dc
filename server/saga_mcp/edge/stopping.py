"""How a server process ends: on a signal, in bounded time, whatever its threads are doing.

Shared by the transports. What is lost by ending so is what a kill would lose: it falls in doubt (SEMANTICS.md S12.1).
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from types import FrameType

import anyio

Drain = Callable[[float], Awaitable[None]]
"""Wait at most so many seconds for running work, and record what is left. May be called again with less time."""


def stop_on_signal(*, hard_exit_after_s: float) -> anyio.Event:
    """Return an event the first signal sets. That signal also arms the hard exit; the second one exits at once.

    The handlers run between two bytecodes of the main thread, so they work even while a tool blocks the event loop,
    and they stay for the rest of the process's life.
    """
    stop = anyio.Event()
    loop = asyncio.get_running_loop()
    armed = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if armed.is_set():
            os._exit(128 + number)
        armed.set()
        exit_after(hard_exit_after_s)
        with contextlib.suppress(RuntimeError):  # the loop has closed: the process is on its way out
            loop.call_soon_threadsafe(stop.set)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, on_signal)
    return stop


def exit_after(seconds: float) -> None:
    """End the process in `seconds` with status 0 if it is still there, whatever its threads are doing."""
    timer = threading.Timer(seconds, os._exit, args=(0,))
    timer.daemon = True
    timer.start()
