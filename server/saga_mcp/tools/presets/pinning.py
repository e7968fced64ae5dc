"""How a command keeps to the version of a package that a preset was checked with. Pure.

Whoever starts a server by `npx`, `uvx` or a container gets the newest version that there is, one day a different one,
unless the command names a version. What is installed stays as it is, and is none of this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from saga_mcp.tools.presets import Preset

_FETCH = {
    **dict.fromkeys(("npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "bun"), "@"),
    **dict.fromkeys(("uvx", "uv", "pipx"), "=="),
    # Tags of images are their maker's choice; the one image of which there is a preset has them so.
    **dict.fromkeys(("docker", "podman"), ":v"),
}
"""Programs that fetch what they start, and what stands between a package and its version for each."""
_VERSION = re.compile(r"[@:=~^v]*\d|@sha256:")
"""A version or a digest, and not the name of whatever is the newest, or a bound below only."""


def pinned(preset: Preset, words: Sequence[str]) -> str:
    """Return what to write in place of a preset's package, so that no other version is started.

    Args:
        preset: Which.
        words: A command and its arguments, or a URL.

    Returns:
        Empty where the command names a version itself, or fetches nothing.
    """
    fetches = (_FETCH.get(PurePath(word.replace("\\", "/")).stem.lower()) for word in words)
    mark = next((each for each in fetches if each), "")
    package = re.compile(rf"{re.escape(preset.package)}(?P<extras>\[[^]]*\])?(?P<version>[@=:~<>!].*)?")
    for word in words if mark else ():
        found = package.fullmatch(word)
        if found is not None and not _VERSION.match(found["version"] or ""):
            return f"{preset.package}{found['extras'] or ''}{mark}{preset.checked}"
    return ""


def how_to_stay(preset: Preset, words: Sequence[str]) -> str:
    """Return how a server is kept at the version that its preset was checked with, as a person is told."""
    word = pinned(preset, words)
    return f'write "{word}" in place of the package' if word else f"start {preset.package} {preset.checked}"
