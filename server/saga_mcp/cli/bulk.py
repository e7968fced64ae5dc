"""`retry --all`: after the bad hour of a service, everything that it left behind tries again, with one question."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import typer

from saga_mcp.app import App
from saga_mcp.cli import views
from saga_mcp.cli.drive import ALONE_WAIT_S, opened_for_a_while
from saga_mcp.cli.ground import Ground, open_log
from saga_mcp.cli.items import Waiting, verbs, waiting
from saga_mcp.cli.options import ask
from saga_mcp.cli.output import Exit, Output, count
from saga_mcp.cli.refused import for_people
from saga_mcp.domain import person_decisions
from saga_mcp.domain.errors import DriverUnavailable, LogError, Refused
from saga_mcp.domain.values import ItemKind, JsonObject
from saga_mcp.log.port import SagaLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be tried again, and by whom."""

    tool: str
    """Only what waits at a call of this tool, or at an undo that calls it; empty: everything."""
    by: str
    note: str
    wait_s: float | None
    detach: bool


@dataclass(slots=True)
class _Retried:
    item: str
    what: str
    refused: str = ""
    waits: bool = False
    """Something still waits there when the command ends."""


def retry_all(ground: Ground, wanted: Wanted, *, yes: bool, as_json: bool) -> None:
    """Let every item try again that can without a person saying what happened in the world.

    Raises:
        typer.Exit: something was refused, or waits for a person again.
    """
    anyio.run(_retry_all, ground, wanted, yes, Output(as_json))


async def _retry_all(ground: Ground, wanted: Wanted, yes: bool, output: Output) -> None:  # noqa: FBT001 - for anyio.run
    async with open_log(ground) as log:
        found = await _items(log, ground.realm, wanted.tool)
        left = sum(each.item.kind is ItemKind.UNDO_IN_DOUBT for each in await waiting(log, ground.realm))
    retried: list[_Retried] = []
    alone = not ground.servers() and not wanted.detach and ground.loaded.temporal is None
    if found:
        if not output.as_json:
            kinds = Counter(f"{each.item.tool}: {each.item.kind.value}" for each in found)
            output.remark(*(f"{number:5}  {kind}" for kind, number in sorted(kinds.items())))
        ask(f"Try again at {count(len(found), 'item')}, in the name of {wanted.by}?", yes=yes)
        async with opened_for_a_while(ground, drive=alone) as opened:
            retried = [await _retry(opened, each, wanted) for each in found]
            wait_s = wanted.wait_s if wanted.wait_s is not None else ALONE_WAIT_S if alone else 0.0
            with anyio.move_on_after(wait_s), contextlib.suppress(DriverUnavailable):
                for saga_id in {each.item.saga_id for each in found} if wait_s else ():
                    await opened.engine.rest(saga_id)
        async with open_log(ground) as log:  # what was under way is recorded by now
            again = {each.item.name for each in await _items(log, ground.realm, wanted.tool)}
        for each in retried:
            each.waits = each.item in again
    _report(ground, retried, left, output)
    if any(each.refused or each.waits for each in retried):
        raise typer.Exit(Exit.FAILED)


async def _items(log: SagaLog, realm: str, tool: str) -> list[Waiting]:
    """What a retry can go on with, of `tool` where that is given.

    An undo in doubt is left out: its retry says that a person has looked and it did not happen, which nobody can say
    of many at once.
    """
    return [
        each
        for each in await waiting(log, realm)
        if "retry" in verbs(each.item)
        and each.item.kind is not ItemKind.UNDO_IN_DOUBT
        and (not tool or tool in _tools(each))
    ]


def _tools(each: Waiting) -> set[str]:
    step = None if each.saga is None else each.saga.find_step(each.item.step)
    part = None if step is None else step.next_part
    return {each.item.tool} | (set() if part is None else {part.spec.tool})


async def _retry(opened: App, each: Waiting, wanted: Wanted) -> _Retried:
    item = each.item
    retried = _Retried(item=item.name, what=views.what(item))
    try:
        await opened.engine.decide_item(
            item.saga_id,
            lambda saga, driving: person_decisions.retry(
                saga, item.step, by=wanted.by, note=wanted.note, driving=driving
            ),
        )
    except (Refused, LogError) as error:  # settled meanwhile, or not to be read: the others go on
        retried.refused = for_people(error) if isinstance(error, Refused) else str(error)
    return retried


def _report(ground: Ground, retried: Sequence[_Retried], left: int, output: Output) -> None:
    done = sum(not each.refused for each in retried)
    if output.as_json:
        shown: list[JsonObject] = [{"item": e.item, "refused": e.refused, "waits_again": e.waits} for e in retried]
        output.json({"retried": [*shown], "undo_in_doubt": left, "driven_by_server": bool(ground.servers())})
        return
    for each in retried:
        if each.refused:
            output.text(f"{each.item}  not tried: {each.refused}")
        elif each.waits:
            output.text(f"{each.item}  waits again: see `saga-mcp show {each.item}`")
    if left:
        say = "happened or not: `retry ITEM`, or `resolve ITEM --undone`"
        output.text(f"{count(left, 'undo')} in doubt left out: look at each whether it {say}.")
    if done and ground.servers():
        output.text(f"A server (pid {', '.join(each.where for each in ground.servers())}) goes on with them.")
    output.text(f"{count(done, 'item')} let go on, in {ground.database}")
