"""`show`: one saga, one step or item of it, its history, and what its steps changed."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from saga_mcp.cli import views
from saga_mcp.cli.diff import diff, diff_json
from saga_mcp.cli.ground import open_log, stand_on
from saga_mcp.cli.items import behind, history, item_at, readable_history, verbs
from saga_mcp.cli.look import load, split_name, where, who_goes_on
from saga_mcp.cli.noting import note_look
from saga_mcp.cli.options import ConfigOption, JsonOption, ValuesOption
from saga_mcp.cli.output import CommandFailed, Output, wrong_usage
from saga_mcp.cli.present import look_again, looked_at
from saga_mcp.cli.standing import Standing, frozen_pairs, other_holders, standing
from saga_mcp.cli.timeline import timeline, timeline_json
from saga_mcp.domain.attention import items, summary
from saga_mcp.domain.duties import busy
from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject
from saga_mcp.log.port import Record


def show(  # noqa: PLR0913 - its options
    name: Annotated[str, typer.Argument(metavar="ID|ITEM", help="A saga, or <saga>.<step>.", show_default=False)],
    *,
    with_timeline: Annotated[bool, typer.Option("--timeline", help="Every event, as an audit trail.")] = False,
    with_diff: Annotated[
        bool, typer.Option("--diff", help="What was there before each step, where that was captured.")
    ] = False,
    with_now: Annotated[
        bool, typer.Option("--now", help="With --diff: and what is there now, read by the tools that captured it.")
    ] = False,
    values: ValuesOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most that many steps, the newest.")] = 200,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one saga, its history, or one item, and what it waits for. Changes nothing.

    Example: saga-mcp show sg-7k2m... --timeline
    """
    if with_now and not with_diff:
        wrong_usage("--now goes with --diff.")
    ground = stand_on(config, code=with_now)
    saga_id, step = split_name(name)
    output = Output(as_json)
    shows = [option for option, given in (("--values", values), ("--diff", with_diff)) if given]
    if shows and ground.database_exists():
        note_look(ground.loaded.database.beside, name, " ".join(["show", *shows]), output)

    async def run() -> None:
        async with open_log(ground) as log:
            try:
                saga = await load(log, ground, saga_id)
            except SagaQuarantined as error:
                readable = [record async for record in readable_history(log, saga_id)]
                raise _quarantined(output, error, readable, values=values) from error
            if step is not None and saga.find_step(step) is None and not (step == 0 and items(saga)):
                raise CommandFailed(f"Saga {saga_id} has no step {step}.", code="item_not_found")
            records = [record async for record in history(log, saga_id)]
            again = looked_at(saga, step) if with_now else []
            pairs = await frozen_pairs(log, [*saga.loose_steps, *again])
            # What is shown lacks the secrets that a read may need.
            whole = await log.load(saga.id) if again else saga
            paused, held = await log.paused(ground.realm), await other_holders(log, saga)
            stands = standing(saga, records, pairs, ground.alive(), paused, held, here=ground.loaded.settings.host)
        now = await look_again(ground, whole, [whole.step(each.number) for each in again], pairs) if again else {}
        if step is not None:
            records = [record for record in records if getattr(record.event, "step", 0) == step]
        if as_json:
            shown = _show_json(saga, step, values=values)
            if with_timeline:
                shown["timeline"] = timeline_json(records, values=values)
            if with_diff:
                shown["diff"] = diff_json(saga, step, now)
            output.json({**where(ground), **shown, **stands.json(step), "summary": summary(saga)})
            return
        if step is not None:
            _item_text(output, saga, step, values=values and not with_timeline)
        if with_timeline:
            output.text(*timeline(records, values=values), "")
        elif step is None:
            views.saga_text(output, saga, records[0].at, values=values, limit=limit)
        if with_diff:
            output.text(*diff(saga, step, now), "")
        _standing_text(output, stands, step)
        output.text(*who_goes_on(ground, going=busy(saga)), summary(saga))

    anyio.run(run)


def _quarantined(output: Output, error: SagaQuarantined, readable: list[Record], *, values: bool) -> CommandFailed:
    """What can be shown of a saga that cannot be folded: its events up to the first that cannot be read."""
    if not output.as_json:
        output.text(*timeline(readable, values=values))
    return CommandFailed(
        f"{error.saga_id} is quarantined: {error.reason}. Nothing drives it; all other sagas go on. What was written "
        "before that is shown. A newer saga-mcp may have written it: upgrade, then look again.",
        code=error.code,
        details={"timeline": timeline_json(readable, values=values)},
    )


def _show_json(saga: Saga, step: int | None, *, values: bool) -> JsonObject:
    if step is None:
        return {"saga": views.saga_json(saga, values=values)}
    item = item_at(saga, step)
    found = saga.find_step(step)
    return {
        "item": None if item is None else views.item_json(item) | {"blocks": len(behind(saga, step))},
        "step": None if found is None else views.step_json(found, values=values),
        "wiped": saga.wiped,
    }


def _item_text(output: Output, saga: Saga, step: int, *, values: bool) -> None:
    item = item_at(saga, step)
    found = saga.find_step(step)
    if found is not None:
        views.step_text(output, found, values=values and not saga.wiped)
    if saga.wiped:
        output.text(views.WIPED)
    if item is None:
        output.text("Nothing waits for a person here.")
    else:
        output.text(f"{item.name}  {views.what(item)}")
        output.text(*(f"  saga-mcp {_command(verb, item.name)}" for verb in verbs(item)))
    output.text("")


def _standing_text(output: Output, stands: Standing, step: int | None) -> None:
    lines = [*stands.lines(step)]
    if lines:
        output.text(*lines, "")


def _command(verb: str, item: str) -> str:
    word, _, rest = verb.partition(" ")
    rest = rest.replace("--result", "--result JSON")
    name = item.rpartition(".")[0] if word in {"commit", "abort"} else item
    return f"{word} {name} {rest}".rstrip()
