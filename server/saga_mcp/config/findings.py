"""Collects problems and warnings while a config is read, so that a person sees all of them at once."""

from __future__ import annotations

from collections.abc import Mapping

from saga_mcp.config.problems import ConfigProblem, KeyPath, show_key


class Findings:
    """What was found so far.

    Args:
        lines: Lines of the file by key path, as far as they are known.
    """

    def __init__(self, lines: Mapping[KeyPath, int]) -> None:
        self._lines = lines
        self._presets: dict[KeyPath, str] = {}
        self._problems: dict[ConfigProblem, None] = {}
        self._warnings: dict[ConfigProblem, None] = {}

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """What keeps the config from being served, in the order of the file."""
        return tuple(sorted(self._problems, key=_line_of))

    @property
    def warnings(self) -> tuple[ConfigProblem, ...]:
        """What a person should know, in the order of the file."""
        return tuple(sorted(self._warnings, key=_line_of))

    def from_preset(self, path: KeyPath, preset: str) -> None:
        """Note that what stands at a key is not in the file, but in a preset."""
        self._presets[path] = preset

    def is_presets(self, path: KeyPath) -> bool:
        """Whether what stands at a key is a preset's."""
        return self._preset_of(path) is not None

    def problem(self, path: KeyPath, message: str) -> None:
        """Note a problem."""
        self._problems[self._placed(path, message)] = None

    def warn(self, path: KeyPath, message: str) -> None:
        """Note a warning; not of what a preset says, which is not the person's to mend."""
        if self._preset_of(path) is None:
            self._warnings[self._placed(path, message)] = None

    def _preset_of(self, path: KeyPath) -> str | None:
        prefixes = (path[:length] for length in range(len(path), 0, -1))
        return next((self._presets[each] for each in prefixes if each in self._presets), None)

    def _placed(self, path: KeyPath, message: str) -> ConfigProblem:
        if (preset := self._preset_of(path)) is not None:
            message = f"in the preset {preset}: {message}"
        known = (self._lines.get(path[:length]) for length in range(len(path), 0, -1))
        return ConfigProblem(show_key(path), message, next((line for line in known if line is not None), None))


def _line_of(found: ConfigProblem) -> int:
    return found.line or 0
