"""LEDGER: tools and what undoes them, over an outside world that is one append-only file.

Served by the real server through `saga.toml` (`path = ".../ledger.py:registry"`), or in process. Whoever runs it says
where the file is: `LEDGER`. What a call does is said by its own argument `mode`, or, by the name of the tool, in
`LEDGER` + `.plan`: a JSON object of lists, of which the n-th entry rules the n-th call (the last one all later ones),
so a plan goes on after a crash. The modes are those of `Mode`; a number is seconds of delay before the effect.

Two lines for each call: `sent` when the function begins, `did` when the effect takes place.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import anyio
from pydantic import BaseModel

from saga_tools import Call, CannotUndo, NeedsPerson, NoEffect, Retry, ToolRegistry, Undo

Mode = str
"""`ok`; `err_before` (no effect, says so), `fail_before` (no effect, does not say so), `err_after` (effect, then an
error); `hang_before`, `hang_after` (until the file `LEDGER` + `.go` is there); `die_before`, `die_after` (SIGKILL);
seconds of delay; `noisy` (writes to stdout); `person`, `give_up` (undos); the name of an exception, raised after the
effect."""

LOUD: Mapping[str, BaseException | type[BaseException]] = {
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "ExceptionGroup": BaseExceptionGroup("several", [ValueError("one"), SystemExit(2)]),
    "RecursionError": RecursionError,
    "GeneratorExit": GeneratorExit,
}


def ledger_file() -> Path:
    return Path(os.environ["LEDGER"])


def lines() -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in ledger_file().read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []


def write(event: str, tool: str, key: str, args: Mapping[str, Any], undo_key: str = "", mode: Mode = "") -> None:
    line = {"event": event, "tool": tool, "key": key, "undo_key": undo_key, "args": dict(args), "pid": os.getpid()}
    line["mode"] = mode
    with ledger_file().open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")  # one write of one line: it is there as a whole or not at all


def mode_of(tool: str, mode: Mode) -> Mode:
    """What the plan says for this call of `tool`; else `mode`."""
    try:
        plan = json.loads(Path(f"{ledger_file()}.plan").read_text(encoding="utf-8")).get(tool, [])
    except FileNotFoundError:
        return mode
    sent = sum(1 for line in lines() if line["event"] == "sent" and line["tool"] == tool)
    return plan[min(sent, len(plan) - 1)] if plan else mode


def may_go() -> bool:
    return Path(f"{ledger_file()}.go").exists()


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class Act:
    """One call: what it does before and after its effect."""

    def __init__(self, tool: str, mode: Mode, key: str, args: Mapping[str, Any], undo_key: str = "") -> None:
        self.mode = mode_of(tool, mode)
        self._line = (tool, key, args, undo_key)
        write("sent", *self._line, self.mode)

    @property
    def delay_s(self) -> float:
        return float(self.mode) if self.mode.replace(".", "", 1).isdigit() else 0.0

    @property
    def hangs_before(self) -> bool:
        return self.mode == "hang_before" and not may_go()

    @property
    def hangs_after(self) -> bool:
        return self.mode == "hang_after" and not may_go()

    def before(self) -> None:
        match self.mode:
            case "err_before":
                raise NoEffect("planned: nothing was done")
            case "fail_before":
                raise RuntimeError("planned: failed before the effect")
            case "die_before":
                die()
            case "person":
                raise NeedsPerson("planned: only a person can", urgency="high")
            case "give_up":
                raise CannotUndo("planned: never")
            case _:
                pass

    def effect(self) -> None:
        write("did", *self._line, self.mode)

    def after(self) -> None:
        match self.mode:
            case "err_after":
                raise RuntimeError("planned: failed after the effect")
            case "die_after":
                die()
            case "noisy":
                print("noise of a tool")  # noqa: T201 - on purpose: stdout is the wire
                os.write(1, b"more noise\n")
                subprocess.run(["echo", "noise of a child"], check=True)  # noqa: S607 - see above
            case loud if loud in LOUD:
                raise LOUD[loud]
            case _:
                pass

    async def run(self) -> None:
        self.before()
        await anyio.sleep(self.delay_s)
        while self.hangs_before:  # noqa: ASYNC110 - the test may be another process
            await anyio.sleep(0.005)
        self.effect()
        while self.hangs_after:  # noqa: ASYNC110 - see above
            await anyio.sleep(0.005)
        self.after()

    def run_in_thread(self) -> None:
        self.before()
        time.sleep(self.delay_s)
        while self.hangs_before:
            time.sleep(0.005)
        self.effect()
        while self.hangs_after:
            time.sleep(0.005)
        self.after()


class Reservation(BaseModel):
    id: int
    item: str


class Charge(BaseModel):
    id: str
    cents: int


QUICK = Retry(attempts=int(os.environ.get("LEDGER_UNDO_ATTEMPTS", "4")), first_delay_s=0.05, max_delay_s=0.2)
TIMEOUT_S = float(os.environ.get("LEDGER_TIMEOUT_S", "30"))
SETTLE_S = float(os.environ.get("LEDGER_SETTLE_S", "5"))

registry = ToolRegistry()


# --- an async pair whose undo may be sent blindly and again ---------------------------------------------------------


@registry.tool(timeout_s=TIMEOUT_S)
async def reserve(item: str, call: Call, mode: Mode = "ok") -> Reservation:
    """Reserve an item."""
    await Act("reserve", mode, call.key, {"item": item}).run()
    return Reservation(id=2**53 + 1, item=item)


@registry.undoes(reserve, retry=QUICK, timeout_s=TIMEOUT_S)
async def release(item: str, undo: Undo[Reservation]) -> None:
    args = {"item": item, "id": undo.result.id if undo.result else None, "cause": undo.cause}
    await Act("release", "ok", undo.call_key, args, undo.key).run()


# --- the same in a thread -------------------------------------------------------------------------------------------


@registry.tool(timeout_s=TIMEOUT_S)
def hold(item: str, call: Call, mode: Mode = "ok") -> str:
    """Hold an item, in a thread."""
    Act("hold", mode, call.key, {"item": item}).run_in_thread()
    return item


@registry.undoes(hold, retry=QUICK, timeout_s=TIMEOUT_S)
def unhold(item: str, undo: Undo[str]) -> None:
    Act("unhold", "ok", undo.call_key, {"item": item}, undo.key).run_in_thread()


# --- a pair with a probe by key, whose undo must not be sent again or blindly ---------------------------------------


@registry.tool(timeout_s=TIMEOUT_S, settle_s=SETTLE_S)
async def charge(cents: int, call: Call, mode: Mode = "ok") -> Charge:
    """Charge a card."""
    await Act("charge", mode, call.key, {"cents": cents}).run()
    return Charge(id=f"ch-{call.key}", cents=cents)


@registry.undoes(charge, retry=QUICK, timeout_s=TIMEOUT_S, idempotent=False, safe_if_absent=False)
async def refund(cents: int, undo: Undo[Charge]) -> None:
    await Act("refund", "ok", undo.call_key, {"cents": cents}, undo.key).run()


@registry.probes(charge)
async def find_charge(cents: int, call: Call) -> Charge | None:
    act = Act("find_charge", "ok", call.key, {"cents": cents})
    if act.mode == "fail_before":
        raise RuntimeError("planned: the probe failed")
    landed = any(line["event"] == "did" and line["tool"] == "charge" and line["key"] == call.key for line in lines())
    return Charge(id=f"ch-{call.key}", cents=cents) if landed else None


# --- a pair without a probe, whose undo must not be sent again or blindly -------------------------------------------


@registry.tool(timeout_s=TIMEOUT_S)
async def wire(cents: int, call: Call, mode: Mode = "ok") -> str:
    """Send money that no one can look up."""
    await Act("wire", mode, call.key, {"cents": cents}).run()
    return call.key


@registry.undoes(wire, retry=QUICK, timeout_s=TIMEOUT_S, idempotent=False, safe_if_absent=False)
async def unwire(cents: int, undo: Undo[str]) -> None:
    await Act("unwire", "ok", undo.call_key, {"cents": cents}, undo.key).run()


# --- retries, pivot, retriable, a person ----------------------------------------------------------------------------


@registry.tool(timeout_s=TIMEOUT_S, idempotent=True, retry=Retry(attempts=3, first_delay_s=0.05, max_delay_s=0.1))
async def book(item: str, call: Call, mode: Mode = "ok") -> str:
    """Book an item; may be sent again with the same key."""
    await Act("book", mode, call.key, {"item": item}).run()
    return item


@registry.undoes(book, retry=QUICK)
async def unbook(item: str, undo: Undo[str]) -> None:
    await Act("unbook", "ok", undo.call_key, {"item": item}, undo.key).run()


@registry.tool(kind="pivot", timeout_s=TIMEOUT_S)
async def send_mail(to: str, call: Call, mode: Mode = "ok") -> str:
    """Send a mail: the point of no return."""
    await Act("send_mail", mode, call.key, {"to": to}).run()
    return to


@registry.tool(
    kind="retriable", idempotent=True, timeout_s=TIMEOUT_S, retry=Retry(attempts=3, first_delay_s=0.05, max_delay_s=0.1)
)
async def notify(to: str, call: Call, mode: Mode = "ok") -> str:
    """Notify somebody, until it succeeds."""
    await Act("notify", mode, call.key, {"to": to}).run()
    return to


@registry.tool(timeout_s=TIMEOUT_S)
async def post(to: str, call: Call, mode: Mode = "ok") -> str:
    """Post a letter, which only a person can take back."""
    await Act("post", mode, call.key, {"to": to}).run()
    return to


@registry.undoes(post)
async def unpost(to: str) -> None:
    raise NeedsPerson(f"the letter to {to} is on its way: call the post office", urgency="high")


# --- parts ----------------------------------------------------------------------------------------------------------


@registry.tool(timeout_s=TIMEOUT_S)
async def reserve_many(items: list[str], call: Call, mode: Mode = "ok") -> list[str]:
    """Reserve several items, one after the other; `mode` rules the last one."""
    write("sent", "reserve_many", call.key, {"items": items})
    for number, item in enumerate(items):
        await call.on_undo(free_one, item=item)
        last = number == len(items) - 1
        await Act("reserve_one", mode if last else "ok", f"{call.key}/{item}", {"item": item}).run()
    return items


@registry.undoes(reserve_many, retry=QUICK)
async def close_order(items: list[str], undo: Undo[list[str]]) -> None:
    await Act("close_order", "ok", undo.call_key, {"items": items}, undo.key).run()


@registry.part(retry=QUICK)
async def free_one(item: str, undo: Undo[Any]) -> None:
    await Act("free_one", "ok", f"{undo.call_key}/{item}", {"item": item}, undo.key).run()


# --- reads and results ----------------------------------------------------------------------------------------------


@registry.tool(kind="read_only", timeout_s=TIMEOUT_S)
def balance(call: Call, mode: Mode = "ok") -> int:
    """Read the balance."""
    Act("balance", mode, call.key, {}).run_in_thread()
    return len(lines())


@registry.tool(timeout_s=TIMEOUT_S)
async def measure(what: str, call: Call) -> Any:  # noqa: ANN401 - results of any type are the point
    """Return something that JSON does not know."""
    await Act("measure", "ok", call.key, {"what": what}).run()
    return {
        "decimal": Decimal("1.10"),
        "datetime": datetime(2027, 1, 2, tzinfo=UTC),
        "bytes": b"\xff\x00",
        "nan": math.nan,
        "set": {1},
        "big": 2**63 - 1,
    }[what]


@registry.undoes(measure)
async def unmeasure(what: str, undo: Undo[Any]) -> None:
    await Act("unmeasure", "ok", undo.call_key, {"what": what, "result": undo.result}, undo.key).run()


@registry.invariant
def affordable(results: Mapping[str, Any]) -> None:
    """No charge is above 1000."""
    assert results.get("charge", {}).get("cents", 0) <= 1000


@registry.invariant
def discreet(results: Mapping[str, Any]) -> bool:
    """Nobody notifies everyone."""
    return results.get("notify") != "everyone"
