"""`saga-mcp prove`: pairs rehearsed on a sandbox that a person names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer

from saga_mcp.cli.ground import stand_on, stdout_kept_clean
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, wrong_usage
from saga_mcp.config import LoadedConfig
from saga_mcp.config.problems import unknown
from saga_mcp.tools.pair import Pair


def prove(
    *,
    samples: Annotated[Path, typer.Option("--samples", metavar="FILE", help="[[call]] and [[read]]: tool and args.")],
    sandbox: Annotated[
        str, typer.Option("--sandbox", metavar="NAMES", help="Upstreams that may be changed, by comma.")
    ] = "",
    singly: Annotated[bool, typer.Option("--singly", help="Not all calls in one saga besides.")] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a test report.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Call tools on a sandbox, fail around each call and each undo, and compare the world before and after.

    Each call is rehearsed by itself; then all of them in one saga, with a failure before and after each step.

    Not on anything that matters: the calls are real. The world is what the [[read]] calls of the file show.

    Example: saga-mcp prove --config copy.toml --samples samples.toml --sandbox fs,memory
    """
    from saga_mcp.cli.proving import reporting  # noqa: PLC0415 - only this command rehearses
    from saga_mcp.cli.proving.rehearsal import SamplesUnusable, read_samples  # noqa: PLC0415 - see above
    from saga_mcp.cli.proving.running import CannotRehearse  # noqa: PLC0415 - see above
    from saga_mcp.cli.proving.running import prove as rehearse  # noqa: PLC0415 - see above

    output = Output(as_json)
    loaded = stand_on(config).loaded
    try:
        rehearsal = read_samples(samples)
    except SamplesUnusable as unusable:
        wrong_usage(f"{unusable}. Nothing was called.")
    tools = _tools(loaded)
    for sample in rehearsal.calls:
        if sample.tool not in tools:
            missing = unknown(f"There is no tool {sample.tool}", sample.tool, tools)
            wrong_usage(f"{missing} Nothing was called.")
    named = {each.strip() for each in sandbox.split(",")} - {""}
    changed = {called.partition(".")[0] for sample in rehearsal.calls for called in _calls(tools[sample.tool])}
    if named != changed:
        wrong_usage(
            f"These rehearsals call tools that write, of {', '.join(sorted(changed))}. If that is a sandbox or a "
            f"scratch copy, say so: --sandbox {','.join(sorted(changed))}. Nothing was called."
        )
    try:
        with stdout_kept_clean():
            scenes = anyio.run(partial(rehearse, loaded, rehearsal, output.remark, singly=singly))
    except CannotRehearse as error:
        raise CommandFailed(f"The world cannot be looked at: {error}", code="cannot_rehearse") from error
    if junit is not None:
        junit.write_text(reporting.as_junit(scenes), encoding="utf-8")
    if as_json:
        output.json(reporting.as_json(scenes))
    else:
        reporting.print_scenes(output, scenes)
    if not all(each.passed for each in scenes):
        raise typer.Exit(Exit.FAILED)


def _tools(loaded: LoadedConfig) -> dict[str, Pair]:
    """What agents are offered, by name in the config."""
    functions = {tool.name: tool.pair for each in loaded.registries for tool in each.tools if tool.offered}
    return functions | {tool.pair.tool: tool.pair for each in loaded.upstreams for tool in each.tools if tool.listed}


def _calls(pair: Pair) -> Iterator[str]:
    """Tools that a rehearsal of it may call and that may write."""
    yield pair.tool
    yield from pair.undo_tools
