"""What `saga-mcp check` does: the config by itself, then against the servers and the log that it names; one report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio

from saga_mcp.cli.checking.asking import ask, shapes_of
from saga_mcp.cli.checking.comparing import Comparison
from saga_mcp.cli.checking.judging import Judge
from saga_mcp.cli.checking.places import Places, table_at
from saga_mcp.cli.ground import Ground
from saga_mcp.cli.log_checks import log_trouble
from saga_mcp.config import ConfigProblem, Survey
from saga_mcp.tools.upstream.asking import Answer, Listed


@dataclass(frozen=True, slots=True)
class Checked:
    """Everything that was found."""

    problems: tuple[ConfigProblem, ...]
    warnings: tuple[ConfigProblem, ...]
    silent: tuple[str, ...]
    """Upstreams that could not be asked."""
    of_this_machine: int
    """How many of the problems are not the config's: these upstreams, and the saga log."""
    untried: tuple[str, ...]
    """Keys of expressions over answers of which nothing is known."""


def check(survey: Survey, *, offline: bool, told: Callable[[str], None]) -> Checked:
    """Check a config.

    Args:
        survey: As it was read; what was found then is part of the answer.
        offline: Look at the config by itself.
        told: Called with a line for each step of what takes time.
    """
    upstreams = () if offline else survey.upstreams
    answers = anyio.run(ask, upstreams, told) if upstreams else {}
    untried = _look(survey, answers)
    silent: list[str] = []
    for name, answer in answers.items():
        if not isinstance(answer, Listed):
            silent.append(name)
            survey.findings.problem(("upstreams", name), f"did not come up: {answer.reason}")
    log = [] if offline or survey.loaded is None else log_trouble(Ground(survey.loaded))
    for trouble in log:
        survey.findings.problem(("saga", "database"), trouble)
    found = survey.findings
    return Checked(found.problems, found.warnings, tuple(silent), len(silent) + len(log), untried)


def _look(survey: Survey, answers: Mapping[str, Answer]) -> tuple[str, ...]:
    findings, content = survey.findings, survey.content
    shapes = shapes_of(survey.registries, survey.upstreams, answers)
    listed = {name: answer for name, answer in answers.items() if isinstance(answer, Listed)}
    judge = Judge(shapes, frozenset(listed), findings)
    pairs = {tool.name: tool.pair for registry in survey.registries for tool in registry.tools}
    offered = {tool.name: tool.registered.name for registry in survey.registries for tool in registry.tools}
    for upstream in survey.upstreams:
        offered |= {tool.pair.tool: tool.offered for tool in upstream.tools}
        pairs |= {tool.pair.tool: tool.pair for tool in upstream.tools}
    called = frozenset(entry.tool for pair in pairs.values() for entry in pair.undo)
    for upstream in survey.upstreams:
        if (answer := listed.get(upstream.name)) is not None:
            Comparison(upstream, answer, content, shapes, called, findings).run()
    places = Places(shapes, offered)
    for upstream in survey.upstreams:
        if upstream.name not in listed:
            continue
        path = ("upstreams", upstream.name)
        spots = [*places.rules(upstream.rules, path, table_at(content, *path))]
        for tool in upstream.tools:
            name = tool.pair.tool
            spots += places.rules(tool.rules, ("tools", name), table_at(content, "tools", name), name)
        for spot in spots:
            judge.look_at(spot)
    for name, pair in pairs.items():
        if (table := table_at(content, "tools", name)) and name in shapes:
            for place in places.of(pair, table):
                judge.look_at(place)
    return tuple(dict.fromkeys(judge.untried))
