"""The commands that look over a realm: the status page, `list`, `attention`; and what other commands look up too."""

from __future__ import annotations

import time
from typing import Annotated

import anyio
import typer

from saga_mcp.cli import views
from saga_mcp.cli.ground import Ground, open_log, stand_on
from saga_mcp.cli.hanging import hanging
from saga_mcp.cli.items import (
    Waiting,
    held_up,
    outages,
    rows,
    waiting,
)
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Output, age, count
from saga_mcp.cli.pausing import line, pause_json
from saga_mcp.domain.errors import SagaNotFound, SagaPruned
from saga_mcp.domain.hiding import hidden
from saga_mcp.domain.ids import normal_saga_id
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge.clean import escape
from saga_mcp.log.owners import LivingOwner
from saga_mcp.log.port import SagaLog, SagaRow

_MOST_REALMS = 5


def status_page(config: ConfigOption = None, *, as_json: JsonOption = False) -> None:
    """What is configured, who is alive, what waits, and what to do next."""
    ground = stand_on(config, code=False)
    anyio.run(_status_page, ground, Output(as_json))


async def _status_page(ground: Ground, output: Output) -> None:
    servers = ground.servers()
    found: list[SagaRow] = []
    attention: list[Waiting] = []
    paused: list[Pause] = []
    others = ground.logs_beside()
    if ground.database_exists():
        async with open_log(ground) as log:
            found = await rows(log, ground.realm, open_only=True)
            attention = await waiting(log, ground.realm)
            paused = [*(await log.paused(ground.realm)).values()]
            if ground.realm_moves:
                others += [name for name in await log.realms() if name != ground.realm]
    moves = _next_moves(ground, servers, found, attention)
    if output.as_json:
        output.json(
            {
                "config": str(ground.path),
                "realm": ground.realm,
                "realm_is_of_the_path": ground.realm_moves,
                "other_realms": [*others],
                "database": ground.database,
                "database_exists": ground.database_exists(),
                "servers": [_server_json(server) for server in servers],
                "open_sagas": len(found),
                "items": len(attention),
                "next": [*moves],
                **_paused(paused),
            }
        )
        return
    output.text(
        f"config    {ground.path}",
        f"realm     {ground.realm}",
        f"saga log  {ground.database}{_whether_there(ground)}",
        f"server    {servers_words(servers)}",
        *_realm_words(ground, others),
        *map(line, paused),
        "",
        *(f"next: {move}" for move in moves),
        "",
        f"{count(len(found), 'open saga')}, {count(len(attention), 'item')} for a person",
    )


def _whether_there(ground: Ground) -> str:
    if ground.database_exists():
        return ""
    return (
        "  (MOVED OR DELETED under a living process: see `saga-mcp doctor`)" if ground.alive() else "  (not there yet)"
    )


def _realm_words(ground: Ground, others: list[str]) -> list[str]:
    """What becomes of the sagas where the folder is moved, or was."""
    if not ground.realm_moves:
        return []
    lines = [
        "",
        "[saga] has no name, so the realm is made from the path of this file: in a moved folder it is another.",
    ]
    if others:
        shown = ", ".join(escape(name) for name in others[:_MOST_REALMS])
        lines.append(f'If this folder was moved, its sagas are in one of these: {shown}. name = "..." takes them back.')
    else:
        lines.append(f'name = "{escape(ground.realm)}" keeps it wherever the folder goes.')
    return lines


def _next_moves(
    ground: Ground, servers: list[LivingOwner], found: list[SagaRow], attention: list[Waiting]
) -> list[str]:
    moves: list[str] = []
    if attention:
        moves.append("saga-mcp attention           what waits for you, and what you can do about it")
    if found:
        moves.append("saga-mcp list --open         sagas that are not at rest")
    if not ground.database_exists():
        moves.append("saga-mcp check               whether the config and the tools are right")
    if not servers:
        moves.append("saga-mcp serve               started by your MCP client; see `saga-mcp serve --help`")
    return moves or ["nothing waits for you; saga-mcp list shows what happened"]


def list_sagas(
    *,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that are not final, or need a person.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most that many, newest first.")] = 50,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List sagas, newest first. Changes nothing.

    Example: saga-mcp list --open
    """
    ground = stand_on(config, code=False)

    async def run() -> None:
        async with open_log(ground) as log:
            found = await rows(log, ground.realm, open_only=open_only)
            shown = [views.Listed(row, await held_up(log, row)) for row in found[:limit]]
            left = ground.left_alone(await log.realms())
            down = await outages(log, found[:limit])
            paused = [*(await log.paused(ground.realm)).values()]
        output = Output(as_json)
        living = ground.alive()
        alive = {owner.id: owner.pid for owner in living}
        places = {owner.id: owner.where for owner in living}
        if as_json:
            listed = [views.row_json(each, alive) for each in shown]
            waits = [each.json() for each in down]
            output.json(
                {
                    **where(ground),
                    "sagas": [*listed],
                    "total": len(found),
                    "waits_for_upstreams": [*waits],
                    **_paused(paused),
                }
            )
            return
        if shown:
            views.saga_table(output, shown, places, time.time())
        if len(found) > limit:
            output.text(f"... and {len(found) - limit} older: --limit {len(found)}")
        going = any(row.busy for row in found)
        output.text(*map(line, paused), *views.outage_lines(down))
        output.text(*left, *who_goes_on(ground, going=going), f"{views.states(found)}, in {ground.database}")

    anyio.run(run)


def attention(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List what waits for a person, and what can be done about each. Changes nothing.

    Example: saga-mcp attention
    """
    ground = stand_on(config, code=False)

    async def run() -> None:
        async with open_log(ground) as log:
            found = await waiting(log, ground.realm)
            hangs = await hanging(ground, log)
            down = await outages(log, await rows(log, ground.realm, open_only=True))
            paused = [*(await log.paused(ground.realm)).values()]
        output = Output(as_json)
        if as_json:
            shown = [views.waiting_json(each) for each in found]
            waits = [each.json() for each in down]
            hang: list[JsonValue] = [each.json() for each in hangs]
            output.json(
                {
                    **where(ground),
                    "items": [*shown],
                    "overdue": hang,
                    "waits_for_upstreams": [*waits],
                    **_paused(paused),
                }
            )
            return
        if found:
            views.waiting_table(output, found, time.time())
        output.text(
            *(each.line() for each in hangs),
            *map(line, paused),
            *views.outage_lines(down),
            *who_goes_on(ground, going=bool(down)),
            f"{count(len(found), 'item')} for a person, in {ground.database}",
        )

    anyio.run(run)


# --- what other commands look up too ----------------------------------------------------------------------------------


def split_name(text: str) -> tuple[str, int | None]:
    """The saga, and the step of an item, that a person named.

    Raises:
        CommandFailed: it is neither an id nor an item.
    """
    name, dot, number = text.strip().rpartition(".")
    step = int(number) if dot and number.isascii() and number.isdecimal() else None
    saga_id = normal_saga_id(name if step is not None else text)
    if saga_id is None:
        raise CommandFailed(
            f'"{text[:80]}" is neither a saga id nor an item (<saga>.<step>): mistyped or cut. See `saga-mcp list`.',
            code="invalid_arguments",
        )
    return saga_id, step


async def load(log: SagaLog, ground: Ground, saga_id: str) -> Saga:
    """A saga of this realm, as it may be shown.

    Raises:
        CommandFailed: the log of this realm does not hold it.
    """
    try:
        saga = await log.load(saga_id)
    except SagaNotFound as missing:
        if isinstance(missing, SagaPruned) and missing.realm == ground.realm:
            raise
        saga = Saga(id=saga_id)
    if not saga.opened or saga.realm != ground.realm:
        raise CommandFailed(
            f"There is no saga {saga_id} of the realm {ground.realm} in {ground.database}. See `saga-mcp list`; "
            "another realm is another config: --config FILE.",
            code="saga_not_found",
        )
    return hidden(saga)


def servers_words(servers: list[LivingOwner]) -> str:
    """Which servers of the realm are alive."""
    if not servers:
        return "none of this realm is alive"
    now = time.time()
    return ", ".join(f"pid {server.where}, up {age(now - server.started_at)}" for server in servers)


def _server_json(server: LivingOwner) -> JsonObject:
    return {"pid": server.pid, "owner": server.id, "up_s": round(max(0.0, time.time() - server.started_at), 1)}


def where(ground: Ground) -> JsonObject:
    """What was looked at, and who is alive there; for programs."""
    servers = ground.servers()
    return {"realm": ground.realm, "database": ground.database, "servers": [_server_json(each) for each in servers]}


def _paused(paused: list[Pause]) -> JsonObject:
    return {"paused": [pause_json(each) for each in paused]}


def who_goes_on(ground: Ground, *, going: bool) -> list[str]:
    """Who goes on with what is shown: what a person has to know before they trust it.

    Args:
        ground: whose servers.
        going: something is running or due in what is shown.
    """
    if servers := ground.servers():
        return [f"Alive: {servers_words(servers)}."]
    halted = ": nothing goes on until one starts, or `saga-mcp recover`" if going else ""
    return [f"No server of the realm {ground.realm} is alive{halted}."]
