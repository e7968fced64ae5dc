"""`saga-mcp try`: what a call would come to, without making it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import anyio
import typer

from saga_mcp import app
from saga_mcp.cli.ground import Ground, stand_on, stdout_kept_clean
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, wrong_usage
from saga_mcp.config.problems import unknown
from saga_mcp.domain.hiding import Hiding
from saga_mcp.domain.values import JsonObject, JsonValue, Kind
from saga_mcp.edge.clean import escape
from saga_mcp.tools.looks import Seen
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.unsent import InvalidArguments, UpstreamDown

if TYPE_CHECKING:
    from saga_mcp.cli.checking.trial import Given, Trial

_UP_WITHIN_S = 120.0
_LONGEST = 300


def attempt(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Its name in the config, or the one agents see.")],
    args: Annotated[str, typer.Argument(metavar="ARGS", help="Its arguments as JSON; - reads them from stdin.")] = "{}",
    *,
    result: Annotated[
        str, typer.Option("--result", metavar="JSON", help="What it would give; default: a sample.", show_default=False)
    ] = "",
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="What it would say; of an upstream.", show_default=False)
    ] = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a call would come to: its arguments, its capture, its undo. Calls nothing but what its capture reads.

    Example: saga-mcp try fs.write_file '{"path": "/tmp/a.txt", "content": "b"}'
    """
    from saga_mcp.cli.checking.trial import Given  # noqa: PLC0415 - knows upstreams, which few commands need

    output = Output(as_json)
    arguments = _json("ARGS", sys.stdin.read() if args == "-" else args)
    if not isinstance(arguments, dict):
        wrong_usage("ARGS has to be a JSON object. Nothing was called.")
    given = Given(result=_json("--result", result), text=text or None, is_sample=False) if result else None
    ground = stand_on(config)
    name, trial = anyio.run(_try, ground, tool, arguments, given, text)
    hiding = Hiding(trial.args[each] for each in trial.pair.secret if each in trial.args)
    if as_json:
        output.json(cast("JsonObject", hiding.json(_as_json(name, trial))))
    else:
        output.text(*map(hiding.text, _lines(name, trial)))
    failed = trial.unbuilt or any(part.problems for entry in trial.entries for part in entry.parts)
    if failed or (trial.seen is not None and not isinstance(trial.seen, Seen)):
        raise typer.Exit(Exit.FAILED)


def _json(what: str, text: str) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(text))
    except ValueError as error:
        wrong_usage(f"{what} is not JSON: {error}. Nothing was called.")


async def _try(ground: Ground, name: str, arguments: JsonObject, given: Given | None, text: str) -> tuple[str, Trial]:
    from saga_mcp.cli.checking.trial import NoAnswer, try_call  # noqa: PLC0415 - see above

    loaded = ground.loaded
    pairs = {tool.name: tool.pair for registry in loaded.registries for tool in registry.tools if tool.governed}
    offered = {tool.registered.name: tool.name for registry in loaded.registries for tool in registry.tools}
    for upstream in loaded.upstreams:
        pairs |= {tool.pair.tool: tool.pair for tool in upstream.tools}
        offered |= {tool.offered: tool.pair.tool for tool in upstream.tools}
    name = name if name in pairs else offered.get(name, name)
    if name not in pairs:
        if any(name in pair.undo_tools for pair in pairs.values()):
            wrong_usage(f"{name} is called by undos only: try the tool that it undoes. Nothing was called.")
        wrong_usage(unknown(f"There is no tool {name} in {ground.path}", name, [*pairs, *offered]))
    needed = {called.partition(".")[0] for called in (name, *_called(pairs[name]))}
    upstreams = tuple(each for each in loaded.upstreams if each.name in needed)
    with stdout_kept_clean():
        async with app.open_tools(replace(loaded, upstreams=upstreams), up_within_s=_UP_WITHIN_S) as catalogue:
            tool = catalogue.tool(name)
            assert tool is not None  # noqa: S101 - the config has it
            try:
                return name, await try_call(catalogue, tool, arguments, given, text)
            except NoAnswer as none:
                raise CommandFailed(f"{name}: {none}. Nothing was called.", code="no_answer") from none
            except InvalidArguments as invalid:
                refused = "".join(f"\n  {problem}" for problem in invalid.problems)
                raise CommandFailed(f"{name} would be refused:{refused}", code="invalid_arguments") from invalid
            except UpstreamDown as down:
                raise CommandFailed(f"{down}. Nothing was called.", code="upstream_down") from down


def _called(pair: Pair) -> set[str]:
    """What is called, or looked at, to try a call."""
    reads = {pair.capture.call.tool} if pair.capture else set[str]()
    return reads.union((entry.tool for entry in pair.undo), *(_called(case.pair) for case in pair.cases))


def _as_json(name: str, trial: Trial) -> JsonObject:
    given = trial.given
    return {
        "tool": name,
        "kind": trial.pair.kind.value,
        "case": trial.case,
        "args": trial.args,
        "capture": _capture_json(trial),
        "guard": _guard(trial.pair) or None,
        "result": None if given is None else {"value": given.result, "is_sample": given.is_sample},
        "undo": [
            {
                "entry": entry.number,
                "tool": entry.tool,
                "chosen": entry.chosen,
                "why": entry.why or None,
                "parts": [
                    {"args": part.args, "message": part.message or None, "problems": [*part.problems]}
                    for part in entry.parts
                ],
            }
            for entry in trial.entries
        ],
        "cannot_be_built": trial.unbuilt or None,
        "lost_reply": {"undone": trial.lost_is_undone, "what": trial.lost},
        "called": [*trial.called],
    }


def _capture_json(trial: Trial) -> JsonValue:
    capture = trial.pair.capture
    if capture is None:
        return None
    seen = trial.seen
    found: JsonObject = seen.image if isinstance(seen, Seen) else {"refused": "" if seen is None else seen.reason}
    return {"tool": capture.call.tool, **found}


def _lines(name: str, trial: Trial) -> Iterator[str]:
    pair = trial.pair
    case = "" if trial.case is None else f", by case {trial.case + 1}"
    yield f"{escape(name)} ({pair.kind.value}{case})"
    yield f"  arguments  {_shown(trial.args)}"
    if pair.capture is not None:
        yield f"  capture    {escape(pair.capture.call.tool)}: {_sight(trial)}"
    if guard := _guard(pair):
        yield f"  guard      {escape(guard)}"
    if pair.kind is not Kind.READ_ONLY:
        given = trial.given
        sample = " (a sample made from its schema; --result JSON gives another)" if given and given.is_sample else ""
        yield f"  result     {'not known' if given is None else _shown(given.result)}{sample}"
    for entry in trial.entries:
        if not entry.chosen or entry.why:
            verdict = "does not run" if not entry.chosen else "cannot be built"
            yield f"  undo {entry.number + 1}     {escape(entry.tool)} {verdict}: {escape(entry.why)}"
        for part in entry.parts:
            what = escape(part.message) if part.message else _shown(part.args)
            yield f"  undo {entry.number + 1}     {escape(entry.tool)} {what}"
            yield from (f"             which it does not take: {escape(problem)}" for problem in part.problems)
        if entry.chosen and not entry.why and not entry.parts:
            yield f"  undo {entry.number + 1}     {escape(entry.tool)}: nothing"
    if trial.unbuilt:
        yield f"  no undo    {escape(trial.unbuilt)}"
    yield f"  lost reply {escape(trial.lost)}"
    yield ""
    read = f"Nothing was called but {', '.join(trial.called)}, which only reads." if trial.called else ""
    yield escape(read) or "Nothing was called."


def _sight(trial: Trial) -> str:
    if not isinstance(trial.seen, Seen):
        return f"refused, nothing would be sent: {escape('' if trial.seen is None else trial.seen.reason)}"
    image = trial.seen.image
    return f"found {_shown(image['result'] or image['text'])}" if image["found"] else "not there"


def _guard(pair: Pair) -> str:
    if pair.guard is None:
        return ""
    if pair.guard.call is not None:
        return f"{pair.guard.call.tool} is asked before the undo whether the world is as the step left it"
    return "the capture is read again after the step and before its undo, and has to be unchanged"


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)")
