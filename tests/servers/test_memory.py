"""The preset of the memory server, over the server itself."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.servers.behind import Behind, graph

ADA: dict[str, Any] = {"name": "Ada", "entityType": "person", "observations": ["likes tea", "is tall"]}
BEN: dict[str, Any] = {"name": "Ben", "entityType": "person", "observations": []}
KNOWS = {"from": "Ada", "to": "Ben", "relationType": "knows"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path)
    behind.add_memory()
    lines: list[dict[str, Any]] = [{"type": "entity", **ADA}, {"type": "entity", **BEN}, {"type": "relation", **KNOWS}]
    behind.graph.write_text("\n".join(map(json.dumps, lines)))
    return behind


async def test_an_abort_leaves_the_graph_as_it_was(behind: Behind) -> None:
    before = graph(behind.graph)
    cleo: dict[str, Any] = {"name": "Cleo", "entityType": "cat", "observations": ["sleeps"]}
    owns = {"from": "Ada", "to": "Cleo", "relationType": "owns"}
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("memory_create_entities", entities=[cleo, {**ADA, "observations": ["is short"]}])
        await agent.do("memory_create_relations", relations=[owns, KNOWS])
        contents = ["likes tea", "likes Cleo"]
        await agent.do("memory_add_observations", observations=[{"entityName": "Ada", "contents": contents}])
        gone = ["is tall", "was never said"]
        await agent.do("memory_delete_observations", deletions=[{"entityName": "Ada", "observations": gone}])
        await agent.do("memory_delete_relations", relations=[KNOWS, {**KNOWS, "to": "nobody"}])
        await agent.do("memory_delete_entities", entityNames=["Ada", "Nobody"])
        assert graph(behind.graph) != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert graph(behind.graph) == before


@pytest.mark.parametrize("more", [{}, {"type": "relation"}], ids=["as it is listed", "with more than the server knows"])
async def test_what_a_call_names_twice_comes_back_as_often_as_it_was_there(
    behind: Behind, more: dict[str, Any]
) -> None:
    before = sorted(behind.graph.read_text().splitlines())
    cleo: dict[str, Any] = {"name": "Cleo", "entityType": "cat", "observations": ["sleeps"]}
    owns = {"from": "Ben", "to": "Ada", "relationType": "owns", **more}
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("memory_create_entities", entities=[cleo, cleo])
        await agent.do("memory_create_relations", relations=[owns, owns])
        said = {"entityName": "Ben", "contents": ["is here", "is here"]}
        await agent.do("memory_add_observations", observations=[said, said])
        forgotten = {"entityName": "Ada", "observations": ["is tall", "is tall"]}
        await agent.do("memory_delete_observations", deletions=[forgotten, forgotten])
        await agent.do("memory_delete_relations", relations=[{**KNOWS, **more}, {**KNOWS, **more}])
        await agent.do("memory_delete_entities", entityNames=["Ben", "Ben"])
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    after = [json.dumps(json.loads(line)) for line in behind.graph.read_text().splitlines()]
    assert sorted(after) == before


async def test_what_was_there_before_is_not_taken_away(behind: Behind) -> None:
    before = graph(behind.graph)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("memory_create_entities", entities=[ADA, BEN])
        await agent.do("memory_create_relations", relations=[KNOWS])
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert graph(behind.graph) == before


async def test_what_others_have_said_of_a_new_entity_is_not_deleted_with_it(behind: Behind) -> None:
    cleo: dict[str, Any] = {"name": "Cleo", "entityType": "cat", "observations": []}
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("memory_create_entities", entities=[cleo])
        lines = behind.graph.read_text().replace('"Cleo","entityType":"cat","observations":[]',
                                                 '"Cleo","entityType":"cat","observations":["bites"]')  # fmt: skip
        behind.graph.write_text(lines)
        ended = await agent.abort()
    assert "bites" in behind.graph.read_text()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]


async def test_what_several_sagas_do_and_undo_at_once_is_done_and_undone(behind: Behind) -> None:
    before = graph(behind.graph)
    names = [f"cat {number}" for number in range(12)]
    async with behind.serve() as agent:
        sagas: dict[str, str] = {}

        async def create(name: str) -> None:
            cat: dict[str, Any] = {"name": name, "entityType": "cat", "observations": []}
            reply = await agent.client.call_tool("memory_create_entities", {"entities": [cat]})
            assert not reply.is_error, reply.content
            assert reply.meta is not None
            sagas[name] = reply.meta["saga"]["id"]

        async def abort(saga: str) -> None:
            reply = await agent.client.call_tool("saga_abort", {"saga_id": saga})
            assert not reply.is_error, reply.content

        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(partial(create, name))
        assert {name for name in names if f'"{name}"' in behind.graph.read_text()} == {*names}
        async with anyio.create_task_group() as tasks:
            for saga in sagas.values():
                tasks.start_soon(partial(abort, saga))
    assert graph(behind.graph) == before
