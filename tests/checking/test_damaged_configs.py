"""Whatever stands in a config in place of what should, `check` reports it and goes on."""

from __future__ import annotations

import copy
import json
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from unittest import mock

import mcp_types as types
import pytest
from tests.checking.test_expressions import MISTAKES, TOOLS

from saga_mcp.cli.checking import command
from saga_mcp.config import survey_config
from saga_mcp.tools.upstream.asking import Listed

CASES = """
[tools."up.say"]
cases = [
  { when = "${args.x}", kind = "pivot" },
  { when = "${args.y}", capture = { tool = "up.get", args = { number = 1 } }, undo = { manual = "${capture.text}" } },
]
"""
OTHERS: list[Any] = [3, "x", "${args.x}", "${", None, [], {}, [1], {"a": 1}, True, {"tool": "up.get", "args": {"q": 1}}]
LISTED = Listed("s", "1", tuple(types.Tool.model_validate({"name": name, **said}) for name, said in TOOLS.items()))

Keys = tuple[str | int, ...]


def places(value: object, path: Keys = ()) -> Iterator[Keys]:
    if path:
        yield path
    members: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        members = [*cast("dict[str | int, object]", value).items()]
    elif isinstance(value, list):
        members = [*enumerate(cast("list[object]", value))]
    for key, member in members:
        yield from places(member, (*path, key))


async def listed(upstreams: tuple[Any, ...], _told: object) -> dict[str, Listed]:
    return {upstream.name: LISTED for upstream in upstreams}


@pytest.mark.parametrize("seed", range(60))
def test_no_damage_stops_the_check(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable chance
    config: Any = tomllib.loads(f'[upstreams.up]\ncommand = "x"\n{MISTAKES}{CASES}')
    for _ in range(chance.randint(1, 3)):
        *way, last = chance.choice(list(places(config)))
        inner = config
        for key in way:
            inner = inner[key]
        inner[last] = copy.deepcopy(chance.choice(OTHERS))
    file = tmp_path / "saga.json"
    file.write_text(json.dumps(config))
    survey = survey_config(file, {})
    with mock.patch.object(command, "ask", listed):
        checked = command.check(survey, offline=False, told=lambda _line: None)
    assert checked.problems
