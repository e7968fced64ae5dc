"""A person answers in the MCP client what an agent asked for: the SDK's client over real pipes, both eras (S9.1)."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import ClientRequestContext
from tests.e2e.product import BOUND_S, MAIN, Product
from tests.world.server import eventually

CHARGES = '[tools."ledger.charge"]\napproval = "${args.cents > 100}"\n'
APPROVE = types.ElicitResult(action="accept", content={"decision": "approve"})
DECLINE = types.ElicitResult(action="decline")
Given = types.ElicitResult | types.ErrorData

both_eras = pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.slow), "2026-07-28"])


@dataclass
class Person:
    """Whoever sits at the client; or the client, which answers by itself."""

    answer: Given = field(default_factory=lambda: APPROVE)
    before: Callable[[], Awaitable[object]] | None = None
    """Done while the question is open."""
    asked: list[types.ElicitRequestFormParams] = field(default_factory=list[types.ElicitRequestFormParams])
    sees: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Given:
        del context
        assert isinstance(params, types.ElicitRequestFormParams)
        self.asked.append(params)
        self.sees.set()
        if self.before is not None:
            await self.before()
        return self.answer


@dataclass(frozen=True)
class Told:
    """A result as an agent reads it."""

    result: types.CallToolResult

    @property
    def facts(self) -> dict[str, Any]:
        return cast("dict[str, Any]", (self.result.meta or {})["saga"])

    @property
    def code(self) -> str:
        return cast("str", self.facts.get("code", ""))

    @property
    def saga_id(self) -> str:
        return cast("str", self.facts["id"])

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.result.content if isinstance(block, types.TextContent))


@dataclass(frozen=True)
class Agent:
    client: Client

    async def call(self, name: str, /, **arguments: object) -> Told:
        with anyio.fail_after(BOUND_S):
            return Told(await self.client.call_tool(name, arguments))


@asynccontextmanager
async def connected(product: Product, person: Person | None, era: str) -> AsyncGenerator[Agent]:
    """The product's server with the SDK's client, which says that it can ask where there is a person."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-c", MAIN, "serve", "--config", str(product.config)],
        env={**os.environ, **product.world.env},
        cwd=product.folder,
    )
    info = types.Implementation(name="toy-client", version="7")
    async with Client(parameters, mode=era, elicitation_callback=person, client_info=info) as client:
        yield Agent(client)


def asks(product: Product, *, further: str = "") -> None:
    product.configure(f"ask_in_client = true\n{further}", CHARGES)


@pytest.mark.case(81)
@both_eras
async def test_a_person_allows_a_call_in_the_client_and_its_reply_is_the_answer_of_the_stored_call(
    product: Product, era: str
) -> None:
    asks(product)
    person = Person()
    async with connected(product, person, era) as agent:
        told = await agent.call("charge", cents=500)
        assert (told.code, told.result.structured_content["cents"]) == ("", 500)
        assert "replayed" not in told.facts
        assert [question.message.splitlines()[:5] for question in person.asked] == [
            [
                "An agent wants to make this call, and you have to allow it:",
                "",
                "charge",
                "  cents = 500",
                '  mode = "ok"',
            ]
        ]
        code, said = await product.run("show", told.saga_id, "--timeline")
        assert code == 0
        assert "by the client toy-client 7 (relayed)" in said
        code, said = await product.run("show", f"{told.saga_id}.1")
        assert "succeeded (allowed by the client toy-client 7 (relayed))" in said
    assert product.world.order == ["charge(500)"]


@both_eras
async def test_a_person_declines_in_the_client_and_the_call_is_never_sent(product: Product, era: str) -> None:
    asks(product)
    async with connected(product, Person(DECLINE), era) as agent:
        saga_id = (await agent.call("saga_begin")).saga_id
        told = await agent.call("charge", saga_id=saga_id, cents=500)
        assert told.code == "approval_rejected"
        again = await agent.call("charge", saga_id=saga_id, cents=500)
        assert again.code == "approval_rejected"
        code, said = await product.run("show", saga_id, "--timeline")
        assert code == 0
        assert "rejected; by the client toy-client 7 (relayed)" in said
        code, said = await product.run("show", f"{saga_id}.1")
        assert "cancelled (rejected by the client toy-client 7 (relayed))" in said
    assert product.world.order == []


@both_eras
async def test_a_chosen_rejection_forbids_and_its_note_is_read_by_the_agent(product: Product, era: str) -> None:
    asks(product)
    rejected = types.ElicitResult(action="accept", content={"decision": "reject", "note": "too much"})
    async with connected(product, Person(rejected), era) as agent:
        told = await agent.call("charge", cents=500)
        assert told.code == "approval_rejected"
        assert '"too much"' in told.text
    assert product.world.order == []


@both_eras
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(types.ElicitResult(action="cancel"), id="closed"),
        pytest.param(types.ElicitResult(action="accept"), id="accepted-without-a-decision"),
        pytest.param(types.ElicitResult(action="accept", content={"decision": "yes"}), id="accepted-with-another-word"),
        pytest.param(types.ElicitResult(action="accept", content={"approved": True}), id="accepted-with-another-field"),
    ],
)
async def test_what_decides_nothing_leaves_the_question_open_and_is_not_asked_again(
    product: Product, era: str, answer: types.ElicitResult
) -> None:
    asks(product)
    person = Person(answer)
    async with connected(product, person, era) as agent:
        told = await agent.call("charge", cents=500)
        assert told.code == "approval_needed"
        assert "Nobody answered it in this client, which is not asked again." in told.text
        again = await agent.call("charge", saga_id=told.saga_id, cents=500)
        assert again.code == "approval_needed"
        assert len(person.asked) == 1
        assert product.world.order == []
        code, said = await product.run("approve", f"{told.saga_id}.1", "--by", "ada", "--yes")
        assert code == 0, said
        assert (await agent.call("charge", saga_id=told.saga_id, cents=500)).code == ""
    assert product.world.order == ["charge(500)"]


@both_eras
@pytest.mark.case(81)
async def test_a_client_is_not_asked_unless_the_config_says_so(product: Product, era: str) -> None:
    product.configure(tools=CHARGES)
    person = Person()
    async with connected(product, person, era) as agent:
        assert (await agent.call("charge", cents=500)).code == "approval_needed"
    assert (person.asked, product.world.order) == ([], [])


@both_eras
@pytest.mark.case(82)
async def test_a_client_that_cannot_ask_is_not_asked_and_the_command_is(product: Product, era: str) -> None:
    asks(product)
    async with connected(product, None, era) as agent:
        told = await agent.call("charge", cents=500)
        assert told.code == "approval_needed"
        assert "in this client" not in told.text
        assert (await product.run("approve", f"{told.saga_id}.1", "--yes"))[0] == 0
        await eventually(lambda: product.world.order == ["charge(500)"])  # the server sends it, not the command


async def test_a_client_of_the_older_era_that_lies_about_what_it_can_gets_the_usual_answer(product: Product) -> None:
    asks(product)
    person = Person(types.ErrorData(code=types.METHOD_NOT_FOUND, message="no such method"))
    async with connected(product, person, "legacy") as agent:
        saga_id = (await agent.call("saga_begin")).saga_id
        for _ in range(2):
            assert (await agent.call("charge", saga_id=saga_id, cents=500)).code == "approval_needed"
        assert len(person.asked) == 1
        assert (await agent.call("charge", saga_id=saga_id, cents=5)).code == ""
    assert product.world.order == ["charge(5)"]


async def test_a_client_of_the_modern_era_that_lies_about_what_it_can_loses_one_reply_and_no_call(
    product: Product,
) -> None:
    asks(product)
    person = Person(types.ErrorData(code=types.METHOD_NOT_FOUND, message="no such method"))
    async with connected(product, person, "2026-07-28") as agent:
        saga_id = (await agent.call("saga_begin")).saga_id
        with pytest.raises(MCPError, match="no such method"):
            await agent.call("charge", saga_id=saga_id, cents=500)
        told = await agent.call("charge", saga_id=saga_id, cents=500)
        assert told.code == "approval_needed"
        assert told.facts["step"] == 1
    assert product.world.order == []


@both_eras
async def test_the_command_answers_first_and_what_the_client_says_later_changes_nothing(
    product: Product, era: str
) -> None:
    asks(product)
    person = Person(DECLINE)
    async with connected(product, person, era) as agent:
        saga_id = (await agent.call("saga_begin")).saga_id

        async def allow() -> None:
            code, said = await product.run("approve", f"{saga_id}.1", "--by", "ada", "--yes")
            assert code == 0, said

        person.before = allow
        told = await agent.call("charge", saga_id=saga_id, cents=500)
        assert told.code == ""
        if era != "legacy":  # there the question is taken back from the client
            assert "What was answered in this client came too late" in told.text
        _, said = await product.run("show", saga_id, "--timeline")
        assert "by ada" in said
        assert "rejected" not in said
    assert product.world.order == ["charge(500)"]


async def test_a_late_answer_is_said_also_where_the_command_has_forbidden_the_call(product: Product) -> None:
    asks(product)
    person = Person(APPROVE)
    async with connected(product, person, "2026-07-28") as agent:
        saga_id = (await agent.call("saga_begin")).saga_id

        async def forbid() -> None:
            code, said = await product.run("reject", f"{saga_id}.1", "--by", "ada", "--yes")
            assert code == 0, said

        person.before = forbid
        told = await agent.call("charge", saga_id=saga_id, cents=500)
        assert told.code == "approval_rejected"
        assert "What was answered in this client came too late" in told.text
    assert product.world.order == []


async def test_a_reply_does_not_wait_for_a_person_longer_than_replies_may_take_and_the_question_stays_open(
    product: Product,
) -> None:
    asks(product, further="reply_within_s = 0.5")
    decides = anyio.Event()
    person = Person(before=decides.wait)
    async with connected(product, person, "legacy") as agent:
        told = await agent.call("charge", cents=500)
        assert told.code == "approval_needed"
        assert "The question is open in this client too." in told.text
        assert (await agent.call("reserve", saga_id=told.saga_id, item="a")).code == ""
        assert product.world.order == ["reserve(a)"]
        decides.set()
        with anyio.fail_after(BOUND_S):
            while (again := await agent.call("charge", saga_id=told.saga_id, cents=500)).code:
                assert again.code in ("approval_needed", "still_running")
        assert again.result.structured_content["cents"] == 500
        assert len(person.asked) == 1
    assert product.world.order == ["reserve(a)", "charge(500)"]


@both_eras
async def test_other_calls_go_on_while_a_person_reads_the_question(product: Product, era: str) -> None:
    asks(product)
    decides = anyio.Event()
    person = Person(before=decides.wait)
    async with connected(product, person, era) as agent:
        saga_id = (await agent.call("saga_begin")).saga_id
        told: list[Told] = []

        async def charge() -> None:
            told.append(await agent.call("charge", saga_id=saga_id, cents=500))

        async with anyio.create_task_group() as calls:
            calls.start_soon(charge)
            with anyio.fail_after(BOUND_S):
                await person.sees.wait()
            assert (await agent.call("reserve", saga_id=saga_id, item="a")).code == ""
            assert (await agent.call("saga_commit", saga_id=saga_id)).code == "commit_refused"
            decides.set()
        assert [each.code for each in told] == [""]
    assert product.world.order == ["reserve(a)", "charge(500)"]


@both_eras
async def test_a_client_that_goes_away_leaves_the_question_to_the_command(product: Product, era: str) -> None:
    asks(product)
    person = Person(before=anyio.sleep_forever)
    async with connected(product, person, era) as agent:
        saga_id = (await agent.call("saga_begin")).saga_id
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: agent.call("charge", saga_id=saga_id, cents=500))
            with anyio.fail_after(BOUND_S):
                await person.sees.wait()
            calls.cancel_scope.cancel()
    code, said = await product.run("approve", f"{saga_id}.1", "--yes")
    assert code == 0, said
    assert product.world.order == ["charge(500)"]


async def test_an_abort_takes_the_question_back_from_the_client(product: Product) -> None:
    asks(product)
    person = Person(before=anyio.sleep_forever)
    async with connected(product, person, "legacy") as agent:
        saga_id = (await agent.call("saga_begin")).saga_id
        told: list[Told] = []

        async def charge() -> None:
            told.append(await agent.call("charge", saga_id=saga_id, cents=500))

        async with anyio.create_task_group() as calls:
            calls.start_soon(charge)
            with anyio.fail_after(BOUND_S):
                await person.sees.wait()
            await agent.call("saga_abort", saga_id=saga_id)
        assert [each.code for each in told] == ["saga_aborted"]
    assert product.world.order == []


@pytest.mark.case(81)
async def test_an_answer_to_a_question_that_nobody_put_allows_nothing(product: Product) -> None:
    asks(product)
    async with connected(product, None, "2026-07-28") as agent:
        asked = await agent.call("charge", cents=500)
        call = {"saga_id": asked.saga_id, "cents": 500}
        for state in ("", "made-up", f"{asked.saga_id}.1", None):
            told = await agent.client.session.call_tool(
                "charge", call, input_responses={"approval": APPROVE}, request_state=state
            )
            assert Told(told).code == "invalid_arguments"
    assert product.world.order == []


async def test_an_answer_is_good_for_one_call_with_the_arguments_that_were_shown(product: Product) -> None:
    asks(product)
    async with connected(product, Person(), "2026-07-28") as agent:
        session = agent.client.session
        saga_id = (await agent.call("saga_begin")).saga_id
        call = {"saga_id": saga_id, "cents": 500}
        first = await session.call_tool("charge", call, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        answers: types.InputResponses = {"approval": APPROVE}
        other = await session.call_tool(
            "charge", {**call, "cents": 900}, input_responses=answers, request_state=first.request_state
        )
        assert Told(other).code == "invalid_arguments"
        same = await session.call_tool("charge", call, input_responses=answers, request_state=first.request_state)
        assert Told(same).code == "invalid_arguments"  # it was used up
    assert product.world.order == []


@both_eras
async def test_a_call_that_cannot_be_shown_whole_is_not_asked_about_in_the_client(product: Product, era: str) -> None:
    product.configure("ask_in_client = true", '[tools."ledger.reserve"]\napproval = true\n')
    person = Person()
    async with connected(product, person, era) as agent:
        told = await agent.call("reserve", item="x" * 5_000)
        assert told.code == "approval_needed"
    assert (person.asked, product.world.order) == ([], [])


@both_eras
async def test_what_an_agent_writes_cannot_pass_for_the_question(product: Product, era: str) -> None:
    product.configure("ask_in_client = true", '[tools."ledger.reserve"]\napproval = true\n')
    person = Person(DECLINE)
    async with connected(product, person, era) as agent:
        await agent.call("reserve", item="a\n\nSafe.\u202e \x1b[2J")
    assert '  item = "a\\n\\nSafe.\\u202e \\u001b[2J"' in person.asked[0].message.splitlines()
