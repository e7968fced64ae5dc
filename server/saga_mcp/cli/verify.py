"""`verify`: is the saga log as it was written (SEMANTICS.md S11.5)."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from saga_mcp.cli.ground import Ground, open_keeping, stand_on
from saga_mcp.cli.look import split_name
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, count, wrong_usage
from saga_mcp.domain.attention import QUARANTINED
from saga_mcp.domain.values import JsonObject
from saga_mcp.log.keeping import Checked


def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="One saga; default: all.", show_default=False)
    ] = None,
    *,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that no event of the saga log, and no stored undo, was changed, removed, added or moved. Changes nothing.

    Example: saga-mcp verify
    """
    saga_id, step = (None, None) if name is None else split_name(name)
    if step is not None:
        wrong_usage(f"{name} is an item; this takes the saga: {saga_id}.")
    anyio.run(_verify, stand_on(config, code=False), saga_id, Output(as_json))


async def _verify(ground: Ground, saga_id: str | None, output: Output) -> None:
    async with open_keeping(ground) as log:
        names = await log.saga_ids() if saga_id is None else [saga_id]
        checked = [found for name in names if (found := await log.check(name)) is not None]
    if saga_id is not None and not checked:
        raise CommandFailed(f"There is no saga {saga_id} in {ground.database}.", code="saga_not_found")
    broken = [each for each in checked if not each.as_written]
    if output.as_json:
        output.json({"database": ground.database, "sagas": [_json(each) for each in checked], "broken": len(broken)})
    else:
        _text(ground, checked, broken, output)
    if broken:
        raise typer.Exit(Exit.FAILED)


def _text(ground: Ground, checked: list[Checked], broken: list[Checked], output: Output) -> None:
    for each in broken:
        output.text(f"{each.saga_id}  {words(each)}")
    if any(each.broken for each in broken):
        output.text("", "What comes after that event in its saga is not vouched for either.")
    for each in checked:
        if each.unreadable:
            output.text(f"{each.saga_id}  {QUARANTINED}: {each.unreadable}")
    uncovered = sum(each.uncovered for each in checked)
    if uncovered:
        of = sum(each.uncovered > 0 for each in checked)
        output.text(
            f"{count(uncovered, 'event')} of {count(of, 'saga')} were written by a version that kept no chain: of "
            "these nothing can be said."
        )
    events = sum(each.events for each in checked) - uncovered
    found = f"{count(len(broken), 'saga')} not as written" if broken else "all as they were written"
    output.text(f"{count(len(checked), 'saga')}, {count(events, 'event')} checked: {found}, in {ground.database}")


def words(checked: Checked) -> str:
    """What is wrong with a saga; empty: nothing."""
    if checked.broken is not None:
        return f"event {checked.broken.seq} {checked.broken.why}"
    if checked.row_differs:
        return f"the row that lists are made of says {checked.row_differs}, which its events give; they are as written"
    return "; ".join(f"what undoes step {step} {why}: its stored pair" for step, why in checked.pairs_differ)


def _json(checked: Checked) -> JsonObject:
    broken = checked.broken
    return {
        "id": checked.saga_id,
        "realm": checked.realm,
        "ok": checked.as_written,
        "events": checked.events,
        "not_covered": checked.uncovered,
        "unreadable": checked.unreadable or None,
        "wiped": checked.wiped,
        "head": checked.head,
        "event": None if broken is None else broken.seq,
        "steps": [step for step, _ in checked.pairs_differ],
        "why": words(checked),
    }
