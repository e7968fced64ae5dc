"""Splits a docstring into what a tool's description says and what its `Args:` section says of each parameter."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Example|Examples|Note|Notes):\s*$")
PARAMETER = re.compile(r"^ {2,8}\*{0,2}(\w+)(?: ?\([^)]*\))?:\s*(.*)$")
NOT_FOR_THE_AGENT = {"Args", "Arguments", "Parameters", "Raises", "Yields"}


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring in google style, taken apart.

    Attributes:
        description: Everything but the sections on parameters and exceptions.
        parameters: What is said of each parameter, by name.
    """

    description: str
    parameters: Mapping[str, str]


def read_docstring(function: Callable[..., object]) -> Docstring:
    """Read a function's docstring; both parts are empty without one."""
    kept: list[str] = []
    parameters: dict[str, str] = {}
    section = name = ""
    for line in (inspect.getdoc(function) or "").splitlines():
        if heading := SECTION.match(line):
            section, name = heading[1], ""
        elif line and not line.startswith(" "):
            section = ""
        if section not in NOT_FOR_THE_AGENT:
            kept.append(line)
        elif section in {"Args", "Arguments", "Parameters"} and not heading:
            found = PARAMETER.match(line)
            indented_more = bool(name) and line.startswith(" " * 6)
            if found and not indented_more:
                name = found[1]
                parameters[name] = found[2].strip()
            elif name and line.strip():
                parameters[name] = f"{parameters[name]} {line.strip()}".strip()
    return Docstring("\n".join(kept).strip(), parameters)
