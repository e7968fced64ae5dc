"""What leaves this program for others to read: `export` (the events of a saga), `schema` (the keys of a config)."""

from __future__ import annotations

import json
from typing import Annotated

import anyio
import typer

from saga_mcp.cli.ground import Ground, open_log, stand_on
from saga_mcp.cli.items import readable_history
from saga_mcp.cli.look import load, split_name
from saga_mcp.cli.noting import note_look
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Output, count, wrong_usage
from saga_mcp.cli.timeline import utc_time
from saga_mcp.config import config_schema
from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.values import JsonObject
from saga_mcp.log.codec import encode
from saga_mcp.log.port import Record


def export(
    name: Annotated[str, typer.Argument(metavar="ID", help="The saga.", show_default=False)],
    *,
    values: Annotated[
        bool, typer.Option("--values", help="With arguments, results, captures and errors of tools.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print every event of a saga, one JSON object a line, without values unless they are asked for.

    Example: saga-mcp export sg-7k2m... > saga.jsonl
    """
    saga_id, step = split_name(name)
    if step is not None:
        wrong_usage(f"{name} is an item; this takes the saga: {saga_id}.")
    ground, output = stand_on(config, code=False), Output(as_json)
    if values and ground.database_exists():
        note_look(ground.loaded.database.beside, saga_id, "export --values", output)
    anyio.run(_export, ground, saga_id, values, output)


async def _export(ground: Ground, saga_id: str, values: bool, output: Output) -> None:  # noqa: FBT001 - for anyio.run
    unreadable = ""
    async with open_log(ground) as log:
        try:
            await load(log, ground, saga_id)
        except SagaQuarantined as error:
            unreadable = error.reason
        records = [record async for record in readable_history(log, saga_id)]
    for record in records:
        output.text(json.dumps(_line(saga_id, record, values=values), ensure_ascii=True))
    if unreadable:
        raise CommandFailed(
            f"{saga_id} is quarantined: {unreadable}. The {count(len(records), 'event')} before that are printed.",
            code="saga_quarantined",
        )
    without = "" if values else ", without values; --values prints them too"
    output.remark(f"{count(len(records), 'event')} of {saga_id}{without}")


def _line(saga_id: str, record: Record, *, values: bool) -> JsonObject:
    encoded = encode(record.event)
    line: JsonObject = {
        "saga": saga_id,
        "seq": record.seq,
        "at": utc_time(record.at),
        "type": encoded.type,
        "version": encoded.version,
        "facts": json.loads(encoded.facts),
    }
    if record.wiped:
        line["wiped"] = True
    elif values:
        line["values"] = None if encoded.payload is None else json.loads(encoded.payload)
    return line


def schema(*, as_json: JsonOption = False) -> None:
    """Print the JSON Schema of saga.toml, for editors that complete and check it.

    Example: saga-mcp schema > saga.schema.json
    """
    del as_json  # it is JSON anyway
    Output(as_json=True).json(config_schema())
