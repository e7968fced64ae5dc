"""Forty random calls over three real servers, undone: what there was hashes the same again.

What the presets name as not restored is not asked for. Seeds run one after the other before the same servers;
`SAGA_MCP_SEEDS=200` runs more of them.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.behind import Agent, Behind, graph, tree

SEEDS = int(os.environ.get("SAGA_MCP_SEEDS", "4"))
CALLS = 40

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

NAMES = ["Ada", "Ben", "Cleo", "Dan"]
SAID = ["likes tea", "is tall", "sings", "sleeps"]
KINDS = ["knows", "owns"]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path, saga='on_error = "hold"\n')
    behind.add_filesystem()
    behind.add_memory()
    behind.add_git()
    behind.git("branch", "other")
    for name in ("a", "b", "sub/c"):
        path = behind.files / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}\nlast line\n", encoding="utf-8", newline="\r\n")
    entities = [{"type": "entity", "name": name, "entityType": "x", "observations": SAID[:2]} for name in NAMES[:2]]
    relation = {"type": "relation", "from": "Ada", "to": "Ben", "relationType": "knows"}
    behind.graph.write_text("\n".join(map(json.dumps, [*entities, relation])))
    return behind


def world(behind: Behind) -> dict[str, object]:
    """What there is, by the means of the world itself."""
    status = behind.git("status", "--porcelain", "--branch").splitlines()
    return {
        "files": tree(behind.files),
        "graph": graph(behind.graph),
        "work tree": {
            name: content for name, content in tree(behind.repository).items() if not name.startswith(".git")
        },
        "status": [line for line in status if ".undone-" not in line],
    }


def calls(behind: Behind, chance: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls without end, that fit the servers' schemas; some fail, as an agent's do."""
    paths = [
        str(behind.files / name) for name in ("a", "b", "new", "sub", "sub/c", "sub/d", "made", "made/e", "made/f/g")
    ]
    repository = str(behind.repository)
    tracked = [str(behind.repository / name) for name in ("first", "second")]

    def entity() -> dict[str, Any]:
        said = chance.sample(SAID, chance.randrange(3))
        return {"name": chance.choice(NAMES), "entityType": "x", "observations": said}

    def relation() -> dict[str, Any]:
        # Between those that are there: what the server does not list of others no undo brings back, as the preset says.
        there = sorted(line["name"] for line in map(json.loads, graph(behind.graph)) if line["type"] == "entity") or [
            "Ada"
        ]
        return {"from": chance.choice(there), "to": chance.choice(there), "relationType": chance.choice(KINDS)}

    def observations(key: str) -> dict[str, Any]:
        return {"entityName": chance.choice(NAMES), key: chance.sample(SAID, 2)}

    while True:
        # Folders above a new one that had to be made stay, as the preset says.
        possible_folders = [path for path in paths if Path(path).parent.is_dir()]
        content = chance.choice(["", "text", "more\r\ntext\n", "\ufeffwith a mark\n", f"ü{chance.random()}"])
        edit = {
            "oldText": chance.choice(["last line", "text", "a"]),
            "newText": chance.choice(["", "edited", "last line"]),
        }
        possible: list[tuple[str, dict[str, Any]]] = [
            ("fs_write_file", {"path": chance.choice([*paths, *tracked]), "content": content}),
            ("fs_edit_file", {"path": chance.choice([*paths, *tracked]), "edits": [edit]}),
            ("fs_create_directory", {"path": chance.choice(possible_folders)}),
            ("fs_move_file", {"source": chance.choice(paths), "destination": chance.choice(paths)}),
            ("memory_create_entities", {"entities": [entity()]}),
            ("memory_create_relations", {"relations": [relation()]}),
            ("memory_add_observations", {"observations": [observations("contents")]}),
            ("memory_delete_entities", {"entityNames": chance.sample(NAMES, 2)}),
            ("memory_delete_observations", {"deletions": [observations("observations")]}),
            ("memory_delete_relations", {"relations": [relation()]}),
            ("git_git_add", {"repo_path": repository, "files": [chance.choice(["first", "second", "."])]}),
            ("git_git_checkout", {"repo_path": repository, "branch_name": chance.choice(["main", "other"])}),
        ]
        yield chance.choice(possible)


async def change(agent: Agent, behind: Behind, seed: int) -> list[str]:
    """Do what a seed says; a line for each call."""
    done: list[str] = []
    for tool, arguments in calls(behind, random.Random(seed)):  # noqa: S311 - repeatable chance is the point
        reply = await agent.try_to(tool, **arguments)
        done.append(f"{'failed' if reply.is_error else 'did'} {tool} {json.dumps(arguments)} {reply.content[0].text!r}")
        if len(done) == CALLS:
            return done
    raise AssertionError


async def test_whatever_was_done_is_undone(behind: Behind) -> None:
    changed = 0
    async with behind.serve(bound_s=60.0 + 60.0 * SEEDS) as agent:
        for seed in range(SEEDS):
            before = world(behind)
            agent.saga = ""
            await agent.begin()
            done = await change(agent, behind, seed)
            changed += world(behind) != before
            ended = await agent.abort()
            told = "\n".join([f"seed {seed}", *done, json.dumps(ended.get("items"), indent=1)])
            assert ended["state"] == "compensated", told
            assert world(behind) == before, told
    assert changed > SEEDS / 2
