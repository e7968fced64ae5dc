"""An agent forgets, mixes up and repeats: the saga's id decides, and each wrong call has one documented answer."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable

import anyio
import pytest
from tests.e2e.product import Client, Product
from tests.world.server import eventually


@pytest.mark.slow
@pytest.mark.case(72)
async def test_an_agent_that_forgot_everything_is_told_what_is_open_and_what_it_can_do(product: Product) -> None:
    async with product.serve() as agent:
        opened = await agent.call("saga_begin", purpose="onboard ada")
        for item in "abc":
            reply = await agent.call("reserve", item=item, saga_id=opened.saga_id)
            assert opened.saga_id in reply.text
    async with product.serve() as after_the_compaction:
        view = (await after_the_compaction.call("saga_status")).structured
        (row,) = view["sagas"]
        assert (row["saga_id"], row["purpose"], row["steps"]) == (opened.saga_id, "onboard ada", 3)
        assert row["age_s"] >= 0
        assert "saga_commit keeps all, saga_abort undoes all" in view["next"][0]
        status = await after_the_compaction.status(row["saga_id"])
        assert [entry["does"] for entry in status["undo_plan"]] == ["undo"] * 3
        assert (await after_the_compaction.call("saga_commit", saga_id=row["saga_id"])).state == "committed"


@pytest.mark.slow
@pytest.mark.case(72)
async def test_a_call_without_an_id_says_which_saga_it_opened_or_is_asked_for_one(product: Product) -> None:
    async with product.serve() as agent:
        first = await agent.call("reserve", item="a")
        second = await agent.call("reserve", item="b")
        assert (second.facts["opened"], second.saga_id != first.saga_id) == (True, True)
        assert f"[saga {second.saga_id}: step 1 done" in second.text
    product.configure('saga_id = "required"')
    async with product.serve() as agent:
        asked = await agent.call("reserve", item="c")
        assert (asked.is_error, asked.code) == (True, "saga_id_missing")
        assert asked.text.startswith("Nothing was sent. Call saga_begin first and pass its saga_id.")
    assert product.world.order == ["reserve(a)", "reserve(b)"]


@pytest.mark.slow
@pytest.mark.case(73)
async def test_two_agents_on_one_connection_never_end_up_in_each_others_saga(product: Product) -> None:
    product.configure('saga_id = "required"')
    async with product.serve() as connection:
        sagas = {name: await connection.begin() for name in ("one", "two")}

        async def work(name: str) -> None:
            for number in range(100):
                tool = ("reserve", "hold")[number % 2]
                reply = await connection.call(tool, item=f"{name} {number}", saga_id=sagas[name])
                assert (reply.is_error, reply.saga_id, reply.facts["step"]) == (False, sagas[name], number + 1)

        async with anyio.create_task_group() as both:
            for name in sagas:
                both.start_soon(work, name)
        refused = await connection.call("reserve", item="whose")
        assert refused.code == "saga_id_missing"
        assert (await connection.call("saga_abort", saga_id=sagas["one"])).state == "compensated"
        assert (await connection.call("saga_commit", saga_id=sagas["two"])).state == "committed"
    assert len(product.world.standing) == 100
    assert all("two" in name for name in product.world.standing)


@pytest.mark.case(76)
async def test_under_the_policy_that_aborts_nothing_can_be_reported_as_done_over_an_undone_world(
    product: Product,
) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        assert (await agent.call("reserve", item="b", mode="err_before", saga_id=saga_id)).state == "compensated"
        for tool, arguments in (("reserve", {"item": "b"}), ("saga_commit", {}), ("saga_savepoint", {"name": "x"})):
            refused = await agent.call(tool, saga_id=saga_id, **arguments)
            assert (refused.is_error, refused.code) == (True, "saga_aborted")
            assert refused.text.startswith(f"Saga {saga_id} was aborted (by step 2 reserve)")
    assert product.world.standing == []
    assert len(product.world.sent("reserve")) == 2


@pytest.mark.slow
@pytest.mark.case(76)
@pytest.mark.parametrize("how", ["superseded", "accepted"])
async def test_under_the_policy_that_holds_a_repaired_call_goes_on_and_a_failure_is_never_forgotten(
    product: Product, how: str
) -> None:
    product.configure('on_error = "hold"')
    product.world.plan(reserve=["ok", "err_before", "ok"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        failed = await agent.call("reserve", item="b", saga_id=saga_id, step_key="seat")
        assert (failed.code, failed.state) == ("step_failed", "active")
        refused = await agent.call("saga_commit", saga_id=saga_id)
        assert (refused.code, "step 2 reserve" in refused.text) == ("commit_refused", True)
        key = "seat" if how == "superseded" else "another"
        assert not (await agent.call("reserve", item="b", saga_id=saga_id, step_key=key)).is_error
        if how == "accepted":
            assert (await agent.call("saga_commit", saga_id=saga_id)).code == "commit_refused"
            assert (await agent.call("saga_commit", saga_id=saga_id, accept_failed=[2])).state == "committed"
        else:
            assert (await agent.call("saga_commit", saga_id=saga_id)).state == "committed"
    assert product.world.standing == ["reserve(a)", "reserve(b)"]


MAIL = "def send(to: str) -> str:\n    return to\n"


@pytest.mark.slow
@pytest.mark.case(85)
async def test_a_mail_that_nothing_undoes_is_not_served_before_somebody_says_what_it_is(product: Product) -> None:
    (product.folder / "mail.py").write_text(MAIL, encoding="utf-8")
    mail = '[python.mail]\npath = "mail.py"\nfunctions = ["send"]\n[tools."mail.send"]\n'
    product.configure(tools=mail)
    code, output = await product.run("serve")
    assert code == 2
    assert "nothing undoes it" in output
    assert "pivot" in output
    product.configure(tools=mail + 'undo = { manual = "Mail to ${args.to} was sent: write a correction." }')
    async with product.serve() as agent:
        saga_id = await agent.begin()
        sent = await agent.call("send", to="bob", saga_id=saga_id)
        assert "step 1 done, undo needs a person" in sent.text
        await agent.call("reserve", item="a", saga_id=saga_id)
        stuck = await agent.call("saga_abort", saga_id=saga_id)
        assert (stuck.state, stuck.code) == ("needs_attention", "needs_person")
        assert f"send waits for a person (item {saga_id}.1)" in stuck.text
    _, listed = await product.run("attention", "--json")
    assert "Mail to bob was sent: write a correction." in listed
    assert product.world.standing == []


@pytest.mark.slow
@pytest.mark.case(86)
async def test_after_the_point_of_no_return_a_failure_undoes_nothing_and_is_driven_forward(product: Product) -> None:
    product.world.plan(notify=["err_before", "err_before", "err_before", "ok"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for item in "ab":
            await agent.call("reserve", item=item, saga_id=saga_id)
        await agent.call("send_mail", to="bob", saga_id=saga_id)
        exhausted = await agent.call("notify", to="bob", saga_id=saga_id)
        assert exhausted.is_error
        refused = await agent.call("saga_abort", saga_id=saga_id)
        assert (refused.is_error, refused.code) == (True, "pivot_passed")
        assert "send_mail" in refused.text
        await agent.until(saga_id, "needs_attention")
        assert (await agent.call("saga_commit", saga_id=saga_id)).code == "commit_refused"
        code, output = await product.run("retry", f"{saga_id}.4", "--yes", "--wait", "20")
        assert code == 0, output
        await agent.until(saga_id, "active")
        assert (await agent.call("saga_commit", saga_id=saga_id)).state == "committed"
    assert product.world.standing == ["reserve(a)", "reserve(b)", "send_mail(bob)", "notify(bob)"]


@pytest.mark.slow
@pytest.mark.case(86)
async def test_while_the_point_of_no_return_is_unknown_there_is_neither_an_abort_nor_a_commit(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        assert (await agent.call("send_mail", to="bob", mode="err_after", saga_id=saga_id)).code == "outcome_unknown"
        assert (await agent.call("saga_abort", saga_id=saga_id)).code == "step_unsettled"
        assert (await agent.call("saga_commit", saga_id=saga_id)).code == "commit_refused"
        assert product.world.standing == ["reserve(a)", "send_mail(bob)"]
        code, output = await product.run("resolve", f"{saga_id}.2", "--absent", "--yes")
        assert code == 0, output
        await agent.until(saga_id, "compensated")
    assert product.world.did("release")[0].args["item"] == "a"


# --- each wrong call in each state ------------------------------------------------------------------------------------


async def _active(agent: Client, _product: Product, saga_id: str) -> None:
    await agent.call("reserve", item="a", saga_id=saga_id)


async def _running(agent: Client, product: Product, saga_id: str) -> None:
    sent = len(product.world.sent("reserve"))
    await agent.ask("reserve", item="a", mode="hang_before", saga_id=saga_id)
    await eventually(lambda: len(product.world.sent("reserve")) > sent)


async def _in_doubt(agent: Client, _product: Product, saga_id: str) -> None:
    await agent.call("wire", cents=5, mode="err_after", saga_id=saga_id)


async def _undoing(agent: Client, _product: Product, saga_id: str) -> None:
    await agent.call("hold", item="a", saga_id=saga_id)
    assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensating"


async def _stuck(agent: Client, _product: Product, saga_id: str) -> None:
    await agent.call("post", to="bob", saga_id=saga_id)
    await agent.call("saga_abort", saga_id=saga_id)


async def _undone(agent: Client, _product: Product, saga_id: str) -> None:
    await agent.call("reserve", item="a", saga_id=saga_id)
    await agent.call("saga_abort", saga_id=saga_id)


async def _committed(agent: Client, _product: Product, saga_id: str) -> None:
    await agent.call("reserve", item="a", saga_id=saga_id)
    await agent.call("saga_commit", saga_id=saga_id)


async def _past_pivot(agent: Client, _product: Product, saga_id: str) -> None:
    await agent.call("send_mail", to="bob", saga_id=saga_id)


Reach = Callable[[Client, Product, str], Awaitable[None]]
VERBS: list[tuple[str, dict[str, object]]] = [
    ("reserve", {"item": "z"}),
    ("saga_commit", {}),
    ("saga_abort", {}),
    ("saga_savepoint", {"name": "mark"}),
    ("saga_status", {}),
]
OK = ""
CELLS: list[tuple[Reach, tuple[str, ...]]] = [
    (_active, (OK, OK, OK, OK, OK)),
    (_running, (OK, "commit_refused", OK, "step_unsettled", OK)),
    (_in_doubt, (OK, "commit_refused", "needs_person", "step_unsettled", OK)),
    (_undoing, ("saga_aborted", "saga_aborted", OK, "saga_aborted", OK)),
    (_stuck, ("saga_aborted", "saga_aborted", "needs_person", "saga_aborted", OK)),
    (_undone, ("saga_aborted", "saga_aborted", OK, "saga_aborted", OK)),
    (_committed, ("saga_closed", OK, "saga_closed", "saga_closed", OK)),
    (_past_pivot, ("kind_refused", OK, "pivot_passed", "pivot_passed", OK)),
]


@pytest.mark.slow
@pytest.mark.case(95)
@pytest.mark.parametrize(("reach", "codes"), CELLS, ids=[reach.__name__.strip("_") for reach, _ in CELLS])
async def test_each_call_in_each_state_has_one_answer_and_a_refused_one_changes_nothing(
    product: Product, reach: Reach, codes: tuple[str, ...]
) -> None:
    product.configure('on_error = "hold"\nreply_within_s = 0.5')
    product.world.plan(unhold=["hang_before"])
    sagas = 0
    async with product.serve() as agent:
        for (verb, arguments), code in zip(VERBS, codes, strict=True):
            saga_id = await agent.begin()
            sagas += 1
            await reach(agent, product, saga_id)
            before = await agent.status(saga_id), len(product.world.lines)
            reply = await agent.call(verb, saga_id=saga_id, **arguments)
            assert (reply.is_error, reply.code) == (bool(code), code), (verb, reply.text)
            if verb == "saga_status" or (code and code != "needs_person"):
                assert (await agent.status(saga_id), len(product.world.lines)) == before, verb
            again = await agent.call(verb, saga_id=saga_id, **arguments) if verb.startswith("saga_") else reply
            assert (again.is_error, again.code) == (reply.is_error, reply.code), (verb, again.text)
    with contextlib.closing(sqlite3.connect(product.folder / "saga.db")) as log:
        assert log.execute("SELECT count(*) FROM saga").fetchone() == (sagas,)
