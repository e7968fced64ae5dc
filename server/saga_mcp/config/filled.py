"""`${env:X}` and `${file:X}` in a config: the two ways in for what must not stand in the file itself.

What they come to is never shown again, neither in a problem nor in the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import KeyPath

_FILLED_IN = re.compile(r"\$\{(?P<kind>env|file):(?P<name>[^}]*)\}")


class Filling:
    """Fills in texts of one config.

    Args:
        folder: The config's, which paths are relative to.
        environ: What `${env:X}` is filled in from.
        findings: Where problems go.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], findings: Findings) -> None:
        self.folder = folder
        self._environ = environ
        self._findings = findings

    def text(self, written: str, key: KeyPath) -> str | None:
        """Return a text with everything filled in; None where something is missing, and the problem is noted."""
        problems: list[str] = []

        def filled(match: re.Match[str]) -> str:
            name = match["name"]
            if not name.strip():
                problems.append(f"{match[0]} names nothing: say ${{{match['kind']}:NAME}}")
                return ""
            if match["kind"] == "env":
                if name not in self._environ:
                    problems.append(f"the environment has no {name}")
                return self._environ.get(name, "")
            try:
                return (self.folder / Path(name).expanduser()).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"{name} cannot be read: {type(error).__name__}")
                return ""

        text = _FILLED_IN.sub(filled, written)
        if "${" in _FILLED_IN.sub("", written):
            message = "a ${ that is not of ${env:NAME} or ${file:NAME} is not filled in, and stays as it is written"
            self._findings.warn(key, message)
        if "\0" in text:
            problems.append("holds the character U+0000, which nothing can be given")
        for problem in problems:
            self._findings.problem(key, problem)
        return None if problems else text
