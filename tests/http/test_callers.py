"""A caller owns its sagas: for another one they do not exist, whatever way the interface has to them (S1.4)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any

import anyio
import pytest
from tests.e2e.product import Product
from tests.http.people import NAMES, TOKENS, share
from tests.http.serving import HEADERS, MODERN, OTHER_ERA, Agent, Answer, agent, bearing, posted, serving, web
from tests.world.server import eventually

from saga_mcp.domain.ids import saga_id


@asynccontextmanager
async def people(product: Product, *, mode: str = MODERN) -> AsyncGenerator[list[Agent]]:
    """`alice`, `bob`, `eve` and `op`, at one server."""
    async with serving(product) as server, AsyncExitStack() as stack:
        yield [await stack.enter_async_context(agent(server.url, TOKENS[name], mode=mode)) for name in NAMES]


@pytest.mark.slow
@pytest.mark.case(75)
@pytest.mark.parametrize("mode", [OTHER_ERA, MODERN])
async def test_there_is_no_way_to_the_saga_of_somebody_else(product: Product, mode: str) -> None:
    share(product, "agent_may_revert = true\naudit_reads = true", "[tools.'ledger.reserve']\non_repeat = 'replay'")
    async with people(product, mode=mode) as (alice, _, eve, _):
        hers = await alice.begin(purpose="hers", key="monday")
        await alice.call("reserve", item="a", saga_id=hers, step_key="k")
        await alice.call("saga_savepoint", saga_id=hers, name="mark")
        committed = await alice.begin()
        await alice.call("reserve", item="kept", saga_id=committed)
        await alice.call("saga_commit", saga_id=committed)
        before = await alice.status(hers)
        for target in (hers, committed):
            ways: list[tuple[str, dict[str, Any]]] = [
                ("reserve", {"item": "b"}),
                ("reserve", {"item": "a"}),  # equal: would be replayed
                ("reserve", {"item": "a", "step_key": "k"}),
                ("hold", {"item": "a"}),
                ("balance", {}),
                ("saga_status", {}),
                ("saga_status", {"after_step": 1}),
                ("saga_commit", {}),
                ("saga_commit", {"accept_failed": [1]}),
                ("saga_abort", {}),
                ("saga_abort", {"to_savepoint": "mark"}),
                ("saga_savepoint", {"name": "mark"}),
                ("saga_revert", {}),
            ]
            for spelling in (target, f"  {target.upper()} "):
                for name, arguments in ways:
                    answer = await eve.call(name, saga_id=spelling, **arguments)
                    assert (answer.is_error, answer.code) == (True, "saga_not_found"), (name, arguments, answer.text)
                    assert answer.text.startswith(f'No saga "{target}" of yours.'), answer.text
                    for hint in ("hers", "monday", "mark", "reserve", "alice", "committed"):
                        assert hint not in json.dumps(answer.facts) + answer.text.replace("saga_not_found", "")
        assert await eve.open() == []
        own = await eve.begin(key="monday")
        assert own != hers
        assert await eve.open() == [own]
        assert await alice.open() == [hers]
        assert await alice.status(hers) == before
        assert (await alice.call("saga_abort", saga_id=hers)).state == "compensated"
    assert product.world.order == ["reserve(a)", "reserve(kept)", "release(a)"]


async def test_what_is_not_there_and_what_is_not_yours_look_alike(product: Product) -> None:
    share(product)
    async with people(product) as (alice, bob, eve, _):
        hers, his = await alice.begin(), await bob.begin()
        await bob.call("saga_commit", saga_id=his)
        nobodys = saga_id(bytes(range(16)))
        answers = [await eve.call("saga_status", saga_id=each) for each in (hers, his, nobodys)]
        said = {answer.text.replace(each, "ID") for answer, each in zip(answers, (hers, his, nobodys), strict=True)}
        assert len(said) == 1
        facts = {
            json.dumps(answer.facts).replace(each, "ID")
            for answer, each in zip(answers, (hers, his, nobodys), strict=True)
        }
        assert len(facts) == 1


async def test_equal_calls_of_two_callers_are_two_calls(product: Product) -> None:
    """Without an id each opens a saga of their own; neither joins, or gets the answer of, the other's."""
    share(product)
    async with people(product) as (alice, bob, _, _):
        answers: dict[str, Answer] = {}

        async def call(name: str, who: Agent) -> None:
            answers[name] = await who.call("reserve", item="a", mode="hang_before")

        async with anyio.create_task_group() as both:
            both.start_soon(call, "alice", alice)
            both.start_soon(call, "bob", bob)
            await eventually(lambda: len(product.world.sent("reserve")) == 2)
            product.world.go()
        assert answers["alice"].saga_id != answers["bob"].saga_id
        for mine, theirs in (("alice", "bob"), ("bob", "alice")):
            assert answers[theirs].saga_id not in answers[mine].text
    assert product.world.order == ["reserve(a)", "reserve(a)"]


async def test_a_refusal_does_not_name_the_saga_of_somebody_else(product: Product) -> None:
    share(product, tools="[tools.'ledger.reserve']\nresource = 'item:${args.item}'")
    async with people(product) as (alice, _, eve, op):
        hers = (await alice.call("reserve", item="a")).saga_id
        refused = await eve.call("reserve", item="a")
        assert refused.code == "resource_held"
        assert hers not in refused.text + json.dumps(refused.facts) + json.dumps(refused.structured)
        assert "a saga of somebody else holds" in refused.text
        assert hers in (await alice.call("reserve", item="a")).text
        assert hers in (await op.call("reserve", item="a")).text


async def test_an_operator_sees_and_ends_all_and_adds_nothing(product: Product) -> None:
    share(product)
    async with people(product) as (alice, bob, _, op):
        hers = (await alice.call("reserve", item="a")).saga_id
        his = (await bob.call("reserve", item="b")).saga_id
        rows = (await op.call("saga_status")).structured["sagas"]
        assert {(row["saga_id"], row["caller"]) for row in rows} == {(hers, "alice"), (his, "bob")}
        assert len((await op.status(hers))["steps"]) == 1
        for name, arguments in (("reserve", {"item": "x"}), ("saga_savepoint", {"name": "x"})):
            refused = await op.call(name, saga_id=hers, **arguments)
            assert refused.code == "saga_not_yours"
            assert "adds nothing to it" in refused.text
        assert (await op.call("saga_commit", saga_id=his)).state == "committed"
        assert (await op.call("saga_abort", saga_id=hers)).state == "compensated"
        assert "an operator (op)" in (await alice.call("reserve", item="y", saga_id=hers)).text
    assert product.world.standing == ["reserve(b)"]


async def test_what_one_of_a_team_goes_on_with_does_not_prove_that_another_got_her_answer(product: Product) -> None:
    """S8.1, S8.3: she sends it again because the answer was lost on its way, which no server sees."""
    share(product)
    async with people(product) as (alice, bob, _, _):
        ours = await alice.begin(team="desk")
        await alice.call("reserve", item="a", saga_id=ours)
        await bob.call("hold", item="b", saga_id=ours)
        again = await alice.call("reserve", item="a", saga_id=ours)
        assert again.facts["replayed"] is True
        await alice.call("hold", item="c", saga_id=ours)
        await alice.call("reserve", item="a", saga_id=ours)  # she has gone on meanwhile: she means another one
    assert product.world.order == ["reserve(a)", "hold(b)", "hold(c)", "reserve(a)"]


async def test_a_team_works_on_one_saga(product: Product) -> None:
    share(product)
    async with people(product) as (alice, bob, eve, _):
        ours = await alice.begin(team="desk", purpose="together", key="k")
        assert await bob.begin(team="desk", key="k") == ours
        assert await bob.begin(key="k") != ours
        await alice.call("reserve", item="a", saga_id=ours)
        await bob.call("reserve", item="a", saga_id=ours)
        assert await bob.open() != [ours]
        assert ours in await bob.open()
        assert await eve.open() == []
        assert (await eve.call("saga_status", saga_id=ours)).code == "saga_not_found"
        refused = await eve.call("saga_begin", team="desk")
        assert (refused.code, "your teams: none" in refused.text) == ("invalid_arguments", True)
        seen = await bob.status(ours)
        assert (seen["team"], seen["opened_by"]) == ("desk", "alice")
        assert [step["by"] for step in seen["steps"]] == ["alice", "bob"]
        refused = await bob.call("saga_commit", saga_id=ours)
        assert refused.code == "commit_refused"
        assert "only alice, who opened saga" in refused.text
        assert (await alice.call("saga_commit", saga_id=ours)).state == "committed"

        others = await alice.begin(team="shift")
        await bob.call("hold", item="c", saga_id=others)
        assert (await bob.call("saga_commit", saga_id=others)).state == "committed"

        last = await alice.begin(team="desk")
        await alice.call("hold", item="d", saga_id=last)
        assert (await bob.call("saga_abort", saga_id=last)).state == "compensated"
    assert product.world.order == ["reserve(a)", "reserve(a)", "hold(c)", "hold(d)", "unhold(d)"]


async def test_whoever_bears_no_token_is_told_where_to_get_one(product: Product) -> None:
    share(product)
    async with serving(product) as server, web() as http:
        for headers in (
            {},
            bearing("sgt_unknown"),
            {"Authorization": "Bearer"},
            {"Authorization": f"Basic {TOKENS['alice']}"},
            {"Authorization": TOKENS["alice"]},
            bearing("x" * 8000),
            bearing(TOKENS["alice"] + "x"),
            bearing(TOKENS["alice"].upper()),
        ):
            answer = await http.post(server.url, json=posted("reserve", item="a"), headers={**HEADERS, **headers})
            assert answer.status_code == HTTPStatus.UNAUTHORIZED, headers
            assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
        answer = await http.post(
            server.url, json=posted("reserve", item="a"), headers={**HEADERS, **bearing(TOKENS["alice"])}
        )
        assert answer.status_code == HTTPStatus.OK
        log = server.process.said
    assert product.world.order == ["reserve(a)"]
    assert TOKENS["alice"] not in log
    assert "sgt_unknown" not in log
    assert TOKENS["alice"].encode() not in product.database.read_bytes()


async def test_limits_hold_for_each_caller(product: Product) -> None:
    share(product, tools="[limits]\nopen_sagas = 2\nrunning_steps = 2\nargument_bytes = 200")
    async with people(product) as (alice, bob, _, op):
        first, second = await alice.begin(key="monday"), await alice.begin()
        assert await alice.begin(key="monday") == first
        for name, arguments in (("saga_begin", {}), ("reserve", {"item": "x"}), ("saga_begin", {"team": "desk"})):
            answer = await alice.call(name, **arguments)
            assert (answer.code == "limit_reached") == ("team" not in arguments), answer.text
        assert not (await alice.call("balance")).is_error
        assert not (await bob.call("saga_begin")).is_error
        for _ in range(3):
            assert not (await op.call("saga_begin")).is_error
        long = await alice.call("reserve", item="x" * 200, saga_id=first)
        assert long.code == "limit_reached"
        assert "smaller calls" in long.text

        async with anyio.create_task_group() as running:
            for item in ("a", "b"):
                running.start_soon(_hang, alice, first, item)
            await eventually(lambda: len(product.world.sent("reserve")) == 2)
            third = await alice.call("reserve", item="c", saga_id=second)
            assert third.code == "limit_reached"
            assert "Wait until one has ended" in third.text
            assert not (await bob.call("hold", item="d")).is_error
            product.world.go()
        assert not (await alice.call("reserve", item="c", saga_id=second)).is_error
        await alice.call("saga_commit", saga_id=first)
        assert not (await alice.call("saga_begin")).is_error
    changed = [effect for effect in product.world.order if effect != "balance()"]
    assert sorted(changed) == ["hold(d)", "reserve(a)", "reserve(b)", "reserve(c)"]


async def _hang(who: Agent, target: str, item: str) -> None:
    await who.call("reserve", item=item, saga_id=target, mode="hang_before")
