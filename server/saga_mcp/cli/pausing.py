"""`pause` and `resume`: a person stops all calls of a tool, of agents and of rollbacks, and lets them go on.

For the bad hour of a service: what is called while it answers nonsense has to be cleaned up by hand afterwards.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import anyio
import typer

from saga_mcp.cli.ground import Ground, open_app, stand_on, survey
from saga_mcp.cli.options import (
    ByOption,
    ConfigOption,
    JsonOption,
    NoteOption,
    YesOption,
    ask,
    person,
    require_answerable,
)
from saga_mcp.cli.output import CommandFailed, Exit, Output, age, wrong_usage
from saga_mcp.config.problems import unknown
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.values import JsonObject, Kind
from saga_mcp.edge.clean import escape
from saga_mcp.edge.outages import utc

_LONGEST_NOTE = 200

ToolOption = Annotated[
    str,
    typer.Option("--tool", metavar="TOOL", help="Its name in the config, or the one agents see.", show_default=False),
]


def pause(
    *,
    tool: ToolOption,
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop all calls of a tool: agents are refused and told why, undos wait without using up their attempts.

    What is being called now runs to its end. Holds for every process on this saga log, until `resume`.

    Example: saga-mcp pause --tool billing.refund --note "the bank is down" --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    ground = stand_on(config, code=False)
    name = tool_named(config, ground, tool)
    _require_writes(config, name)
    who = person(by)
    ask(f"Stop all calls of {escape(name)}, in the name of {who}?", yes=yes)
    wanted = Pause(tool=name, by=escape(who), note=escape(note[:_LONGEST_NOTE]), at=time.time())

    async def put() -> Pause:
        async with open_app(ground, drive=False) as opened:
            return await opened.log.pause(ground.realm, wanted)

    held = anyio.run(put)
    output = Output(as_json)
    if as_json:
        output.json({"paused": pause_json(held), "changed": held == wanted})
    else:
        output.text(line(held) if held == wanted else f"It was paused before. {line(held)}")


def resume(
    *,
    tool: ToolOption,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a paused tool be called again; undos that waited for it go on at once where a server is alive.

    Example: saga-mcp resume --tool billing.refund --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    ground = stand_on(config, code=False)
    output = Output(as_json)

    async def drop() -> str:
        async with open_app(ground, drive=False) as opened:
            paused = await opened.log.paused(ground.realm)
            name = tool if tool in paused else tool_named(config, ground, tool)
            ask(f"Let {escape(name)} be called again?", yes=yes)
            if not await opened.log.resume(ground.realm, name):
                known = ", ".join(escape(each) for each in paused) or "nothing"
                raise CommandFailed(f"{escape(name)} is not paused. Paused here: {known}.", code="not_paused")
            return name

    name = anyio.run(drop)
    if as_json:
        output.json({"resumed": name})
    else:
        nobody = "" if ground.servers() else " No server of this realm is alive: the next one that starts goes on."
        output.text(f"{escape(name)} is called again.{nobody}")
    raise typer.Exit(Exit.DONE)


def tool_named(config: Path | None, ground: Ground, given: str) -> str:
    """The tool that a person means, by its name in the config; also one that only an undo calls.

    Raises:
        CommandFailed: there is none.
    """
    seen = survey(config)
    upstreams = {upstream.name for upstream in seen.upstreams}
    pairs = [tool.pair for registry in seen.registries for tool in registry.tools]
    offered = {tool.registered.name: tool.name for registry in seen.registries for tool in registry.tools}
    for upstream in seen.upstreams:
        pairs += [tool.pair for tool in upstream.tools]
        offered |= {tool.offered: tool.pair.tool for tool in upstream.tools}
    names = {pair.tool for pair in pairs} | {entry.tool for pair in pairs for entry in pair.undo if entry.tool}
    alike = [name for name in names if name.rpartition(".")[2] == given]
    name = offered.get(given, alike[0] if len(alike) == 1 else given)
    source, dot, tool = name.partition(".")
    # An undo may call any tool of an upstream, declared or not; which there are, only the upstream knows.
    if name not in names and not (dot and tool and source in upstreams):
        missing = unknown(f"There is no tool {given} in {ground.path}", given, [*names, *offered])
        wrong_usage(f"{missing} Nothing was changed.")
    return name


def _require_writes(config: Path | None, name: str) -> None:
    seen = survey(config)
    pairs = [tool.pair for registry in seen.registries for tool in registry.tools]
    pairs += [tool.pair for upstream in seen.upstreams for tool in upstream.tools]
    if any(pair.tool == name and pair.kind is Kind.READ_ONLY for pair in pairs):
        wrong_usage(
            f"{escape(name)} only reads, and reads are not held: captures, guards and probes need them. Take it out of "
            "what agents are offered (offer = false). Nothing was changed."
        )


def words(held: Pause) -> str:
    """Which tool is paused, and by whom, when and why."""
    said = f' ("{held.note}")' if held.note else ""
    return f"{escape(held.tool)} is paused by {held.by}, {age(max(0.0, time.time() - held.at))} ago{said}"


def line(held: Pause) -> str:
    """The same with what it means and the way back."""
    return f"{words(held)}: agents are refused, undos wait. {way_back(held)}"


def way_back(held: Pause) -> str:
    """The command that ends a pause."""
    return f"saga-mcp resume --tool {escape(held.tool)}"


def pause_json(held: Pause) -> JsonObject:
    """The same for programs."""
    return {"tool": held.tool, "by": held.by, "note": held.note, "since": utc(held.at)}
