"""The part of a driver that does not depend on its client: orders as JSON lines on stdin, outcomes on stdout.

A driver is a real client under remote control. It connects to the server named by its first argument, says what it
negotiated, and then carries out one order per line, several at a time:

    {"id": 1, "do": "tools"}
    {"id": 2, "do": "call", "name": "reserve", "arguments": {"item": "a"}}
    {"id": 3, "do": "cancel", "order": 2}

An outcome has `value`, as the client's user has it in hand, or `raised`, the client's own error. End of file closes
the client.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Json = Any  # whatever another version of the SDK makes of it


@dataclass(frozen=True)
class Connected:
    """A connected client."""

    protocol: str
    tools: Callable[[], Awaitable[Json]]
    call: Callable[[str, Json], Awaitable[Json]]


def target() -> Json:
    """What to connect to: `command`, `args`, `env`, and the client's own `mode`."""
    return json.loads(sys.argv[1])


async def obey(client: Connected) -> None:
    """Carry out orders until stdin ends."""
    running: dict[int, asyncio.Task[None]] = {}

    async def carry_out(order: Json) -> None:
        try:
            asked = client.tools() if order["do"] == "tools" else client.call(order["name"], order["arguments"])
            _say(order["id"], value=await asked)
        except asyncio.CancelledError:
            _say(order["id"], raised="cancelled")
        except Exception as error:  # noqa: BLE001 - whatever the client does is what the test wants to know
            _say(order["id"], raised=f"{type(error).__name__}: {error}")

    _say(0, value=client.protocol)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        if order["do"] == "cancel":
            running[order["order"]].cancel()
        else:
            running[order["id"]] = asyncio.create_task(carry_out(order))


def _say(order: int, **outcome: Json) -> None:
    sys.stdout.write(json.dumps({"id": order, **outcome}) + "\n")
    sys.stdout.flush()
