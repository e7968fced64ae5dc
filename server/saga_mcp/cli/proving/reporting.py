"""How rehearsals are reported: to a person, to a program, and as JUnit's XML. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from saga_mcp.cli.output import Output, count
from saga_mcp.cli.proving.running import Scene
from saga_mcp.domain.values import JsonObject
from saga_mcp.edge.clean import escape


def print_scenes(output: Output, scenes: Sequence[Scene]) -> None:
    """Print a table, what differs below it, and a line that counts."""
    rows = [(_name(each), each.fault.value, each.verdict.value, each.said) for each in scenes]
    output.table(("TOOL", "WHAT HAPPENS", "THE WORLD", "THE SAGA SAYS"), rows)
    for each in scenes:
        if each.differences:
            output.text("", escape(f"{_name(each)}, {each.fault.value}: {each.verdict.value}"))
            output.text(*(f"  {escape(line)}" for line in _shown(each)))
    if stays := [f"  {tool} ({each.fault.value})" for each in scenes for tool in each.stays]:
        output.text("", "Nobody undid these, so they may still be in the sandbox:", *map(escape, stays))
    failed = sum(not each.passed for each in scenes)
    output.text("", f"{count(len(scenes), 'rehearsal')}, {failed} failed")


def _name(scene: Scene) -> str:
    """The call; where it is one of several in a saga, as which."""
    return f"{scene.tool} (step {scene.step})" if scene.step else scene.tool


def _shown(scene: Scene) -> tuple[str, ...]:
    said = scene.differences and scene.not_restored
    return (*scene.differences, f"The pair says, not restored: {said}") if said else scene.differences


def as_json(scenes: Sequence[Scene]) -> JsonObject:
    """The same for programs."""
    return {
        "rehearsals": [
            {
                "tool": each.tool,
                "step": each.step or None,
                "fault": each.fault.name.lower(),
                "verdict": each.verdict.name.lower(),
                "passed": each.passed,
                "saga": each.said,
                "differences": [*each.differences],
                "stays": [*each.stays],
                "not_restored": each.not_restored,
            }
            for each in scenes
        ],
        "failed": sum(not each.passed for each in scenes),
    }


def as_junit(scenes: Sequence[Scene]) -> str:
    """The same as a test report, one case a rehearsal."""
    failed = sum(not each.passed for each in scenes)
    suite = ET.Element("testsuite", name="saga-mcp prove", tests=str(len(scenes)), failures=str(failed))
    for each in scenes:
        case = ET.SubElement(suite, "testcase", classname=escape(_name(each)), name=each.fault.value)
        told = "\n".join(map(escape, (each.said, *_shown(each))))
        if each.passed:
            ET.SubElement(case, "system-out").text = f"{each.verdict.value}: {told}"
        else:
            ET.SubElement(case, "failure", message=f"{each.verdict.value}: {escape(each.said)}").text = told
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
