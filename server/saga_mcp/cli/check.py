"""`saga-mcp check`: whether what the config says is right, and fits the servers and the saga log as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from saga_mcp.cli import ground
from saga_mcp.cli.ground import problem_json
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, count
from saga_mcp.config import Survey, report
from saga_mcp.domain.values import JsonObject, Kind, PartAction
from saga_mcp.tools.pair import Pair, UndoEntry

if TYPE_CHECKING:
    from saga_mcp.cli.checking.command import Checked


def check(
    *,
    config: ConfigOption = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="The config by itself: start no upstream, do not look at the saga log.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Look for everything that is wrong with the config, by itself and against the upstreams. Calls no tool.

    Exit code 2: the config is wrong. 1: only here it cannot be served: an upstream or the saga log is of no use.

    Example: saga-mcp check --config saga.toml
    """
    from saga_mcp.cli.checking import command  # noqa: PLC0415 - speaks MCP, which few commands need

    output = Output(as_json)
    try:
        survey = ground.survey(config)
    except CommandFailed as error:
        if error.code != "config_invalid":
            raise
        # What is wrong is this command's answer, not its failure to give one.
        if as_json:
            output.json({**error.details, "tools": []})
        else:
            output.text(str(error))
        raise typer.Exit(error.exit_code) from error
    checked = command.check(survey, offline=offline, told=output.remark)
    if as_json:
        output.json(_as_json(survey, checked))
    else:
        _print(output, survey, checked)
    if len(checked.problems) > checked.of_this_machine:
        raise typer.Exit(Exit.USAGE)
    if checked.of_this_machine:
        raise typer.Exit(Exit.FAILED)


def _as_json(survey: Survey, checked: Checked) -> JsonObject:
    loaded = survey.loaded
    where: JsonObject = {"realm": loaded.settings.realm, "database": str(loaded.database)} if loaded else {}
    return {
        "config": str(survey.path),
        **where,
        "errors": [problem_json(each) for each in checked.problems],
        "warnings": [problem_json(each) for each in checked.warnings],
        "did_not_come_up": [*checked.silent],
        "untried": [*checked.untried],
        "tools": [_tool_json(tool) for tool in _tools(survey)],
    }


def _print(output: Output, survey: Survey, checked: Checked) -> None:
    output.text(report(survey.path, checked.problems, checked.warnings), "")
    tools = [*_tools(survey)]
    if tools:
        rows = [
            (tool.pair.tool, tool.offered or "-", tool.kind, _approval(tool.pair) or "-", _undo(tool.pair))
            for tool in tools
        ]
        output.table(("TOOL", "OFFERED AS", "KIND", "APPROVAL", "UNDO"), rows)
        output.text("")
    if checked.untried:
        output.text(
            f"{count(len(checked.untried), 'expression')} not tried: no schema says what the answers hold that they "
            "look at. `saga-mcp try TOOL ARGS --result JSON` shows what they come to."
        )
    where = survey.loaded
    said = f" in the realm {where.settings.realm}, with the saga log {where.database}" if where else ""
    output.text(f"{count(len(tools), 'tool')}{said}")


@dataclass(frozen=True, slots=True)
class _Tool:
    """One tool of the config, of whatever kind of source."""

    pair: Pair
    offered: str
    """The name under which agents see it; empty where they do not."""
    governed: bool = True
    """Whether its calls can be steps; else only undos call it."""

    @property
    def kind(self) -> str:
        """What it is; of one with cases, whatever it may be."""
        kinds = dict.fromkeys(case.pair.kind.value for case in self.pair.cases)
        return " or ".join(kinds) or self.pair.kind.value if self.governed else "undo only"


def _tools(survey: Survey) -> Iterator[_Tool]:
    for registry in survey.registries:
        for tool in registry.tools:
            yield _Tool(tool.pair, tool.registered.name if tool.offered else "", governed=tool.governed)
    for upstream in survey.upstreams:
        for each in upstream.tools:
            yield _Tool(each.pair, each.offered if each.listed else "")


def _tool_json(tool: _Tool) -> JsonObject:
    return {
        "tool": tool.pair.tool,
        "offered_as": tool.offered or None,
        "kind": tool.kind,
        "approval": _approval(tool.pair) or None,
        "undo": [*_undo_words(tool.pair)],
        "not_restored": "; ".join(_residues(tool.pair)) or None,
        "probe": tool.pair.has_probe,
    }


def _approval(pair: Pair) -> str:
    """Of which of its calls a person is asked first; empty: of none."""
    if isinstance(pair.approval, bool):
        return "always" if pair.approval else ""
    return f"where {pair.approval}"


def _undo(pair: Pair) -> str:
    words = ", then ".join(_undo_words(pair)) or {
        Kind.PIVOT: "none: point of no return",
        Kind.RETRIABLE: "none: tried until it succeeds",
        Kind.READ_ONLY: "none needed",
    }.get(pair.kind, "-")
    residues = "; ".join(_residues(pair))
    return f"{words} (not restored: {residues})" if residues else words


def _residues(pair: Pair) -> Iterator[str]:
    yield from dict.fromkeys(each for each in (pair.not_restored, *(c.pair.not_restored for c in pair.cases)) if each)


def _undo_words(pair: Pair) -> Iterator[str]:
    for case in pair.cases:
        words = _undo(replace(case.pair, not_restored=""))
        yield words if case.when is True else f"{words} (where {case.when})"
    for entry in pair.undo:
        words = _entry_words(entry)
        yield words if entry.when is True else f"{words} (where {entry.when})"


def _entry_words(entry: UndoEntry) -> str:
    match entry.action:
        case PartAction.CALL:
            return entry.tool
        case PartAction.MANUAL:
            return "a person"
        case PartAction.LEAVE:
            return "left as it is"
        case PartAction.NOTHING:
            return "nothing"
