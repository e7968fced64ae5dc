"""What becomes of a step by what its upstream answers (SEMANTICS.md S4.5), with a real server behind it."""

from __future__ import annotations

import pytest
from tests.upstream.desk import PAIRED, Desk

from saga_mcp.domain.values import Effect, JsonObject
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.upstream.answers import Answers

SAID = """
[tools."ledger.say"]
undo = { leave = "the line" }
failed_when = "${text.startsWith('Error')}"
no_effect_when = "${text == 'Error: nothing done'}"
result = "${json(regex(text, '(?s)<data>(.*)</data>', '{}'))}"
"""
BLIND = """
[tools."ledger.add"]
undo = { tool = "ledger.remove", args = { id = "${args.id}" }, safe_if_absent = true }
"""


@pytest.mark.parametrize(
    ("mode", "code", "state", "effect"),
    [
        ("ok", None, "active", 1),
        ("fail_before", "step_failed", "compensated", 0),
        ("fail_after", "step_failed", "compensated", 1),  # `error_means` of an upstream is "no_effect"
        ("invalid_params", "step_failed", "compensated", 0),
        ("ask", "step_failed", "compensated", 0),
        ("noise", None, "active", 1),
    ],
)
async def test_an_answer_settles_the_step(desk: Desk, mode: str, code: str | None, state: str, effect: int) -> None:
    desk.configure(BLIND)
    async with desk.open() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item="a", id=7, mode=mode)
    assert (result.facts.get("code"), result.facts["state"]) == (code, state)
    assert desk.did == ["add a"] * effect


@pytest.mark.parametrize("mode", ["protocol_error", "die_before", "die_after"])
async def test_what_proves_nothing_is_undone_where_that_is_harmless(desk: Desk, mode: str) -> None:
    desk.configure(BLIND)
    async with desk.open() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item="a", id=7, mode=mode)
        await agent.until(result.facts["id"], "compensated")
    assert desk.did == [*(["add a"] if mode == "die_after" else []), "remove 7"]


@pytest.mark.case(1, 11)
@pytest.mark.parametrize("mode", ["protocol_error", "die_after"])
async def test_what_proves_nothing_waits_for_a_person_where_its_undo_needs_the_result(desk: Desk, mode: str) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item="a", mode=mode)
        assert result.facts["code"] == "outcome_unknown"
        # What the first words advise is not what the last ones forbid.
        assert not ("NOT FULLY UNDONE" in result.text and "then saga_abort" in result.text)
        await agent.until(result.facts["id"], "needs_attention")
        await agent.until_up()
    assert desk.called("add") == 1
    assert not any(line.startswith("remove") for line in desk.did)


async def test_an_error_may_be_declared_to_prove_nothing(desk: Desk) -> None:
    desk.configure(BLIND + 'error_means = "unknown"\n')
    async with desk.open() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item="a", id=7, mode="fail_after")
        await agent.until(result.facts["id"], "compensated")
    assert desk.did == ["add a", "remove 7"]


DECLARED = {
    "error_means": 'error_means = "unknown"',
    "no_effect_when": "no_effect_when = \"${text.contains('refused')}\"",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "declared", "whose"),
    [
        ("invalid_params_after", "error_means", "tool"),
        ("unknown_tool_after", "no_effect_when", "tool"),
        ("unknown_tool_after", "error_means", "upstream"),
        ("invalid_params_after", "no_effect_when", "upstream"),
    ],
)
async def test_what_is_declared_of_errors_holds_for_those_of_the_protocol_too(
    desk: Desk, mode: str, declared: str, whose: str
) -> None:
    rule = DECLARED[declared]
    if whose == "tool":
        desk.configure(f"{BLIND}{rule}\n")
    else:
        desk.configure(BLIND, upstream=rule)
    async with desk.serve() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item="a", id=7, mode=mode)
        await agent.until(result.facts["id"], "compensated")
    assert desk.did == ["add a", "remove 7"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fail_before", "invalid_params", "protocol_error"])
async def test_an_error_may_be_declared_to_prove_that_nothing_was_done(desk: Desk, mode: str) -> None:
    rule = (
        "no_effect_when = \"${text.contains('nothing was done') || text == 'not like this' || text.contains('broke')}\""
    )
    desk.configure(f"{BLIND}{rule}\n")
    async with desk.serve() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item="a", id=7, mode=mode)
        assert result.facts["state"] == "compensated"
    assert desk.called("remove") == 0


@pytest.mark.parametrize(
    ("mode", "declared"), [("invalid_params_after", "error_means"), ("unknown_tool_after", "no_effect_when")]
)
async def test_an_undo_whose_error_proves_nothing_is_sent_once(desk: Desk, mode: str, declared: str) -> None:
    undo = f'undo = {{ tool = "ledger.remove", args = {{ id = "${{args.id}}", mode = "{mode}" }} }}'
    retry = "{ attempts = 3, first_delay_s = 0.01 }"
    desk.configure(
        f'[tools."ledger.add"]\n{undo.replace(" } }", f" }}, retry = {retry} }}")}\n', upstream=DECLARED[declared]
    )
    async with desk.serve() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=7)
        await agent.call("saga_abort", saga_id=added.facts["id"])
        status = await agent.until(added.facts["id"], "needs_attention")
    assert desk.called("remove") == 1
    assert "undo_in_doubt" in str(status)


@pytest.mark.parametrize(
    ("text", "code", "state"),
    [
        ("fine", None, "active"),
        ("Error: nothing done", "step_failed", "compensated"),
        ("Error: half done", "step_failed", "compensated"),  # in doubt, and left as the config says
    ],
)
async def test_a_text_may_be_a_failure(desk: Desk, text: str, code: str | None, state: str) -> None:
    desk.configure(SAID)
    async with desk.open() as agent:
        await agent.until_up()
        result = await agent.call("ledger_say", text=text)
        assert result.facts.get("code") == code
        await agent.until(result.facts["id"], state)
    assert result.text.splitlines()[0] == text
    assert not result.is_error


async def test_a_result_is_read_as_the_config_says(desk: Desk) -> None:
    undo = 'undo = { tool = "ledger.remove", args = { id = "${result.n}" } }'
    desk.configure(SAID.replace('undo = { leave = "the line" }', undo))
    async with desk.open() as agent:
        await agent.until_up()
        said = await agent.call("ledger_say", text=f'here: <data>{{"n": {2**62 + 1}}}</data>')
        await agent.call("saga_abort", saga_id=said.facts["id"])
    assert desk.did[1:] == [f"remove {2**62 + 1}"]


@pytest.mark.case(4)
async def test_an_answer_that_breaks_its_own_schema_is_a_success_and_can_be_undone(desk: Desk) -> None:
    desk.configure(BLIND)
    async with desk.open() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item="a", id=7, mode="unfit")
        assert result.facts["code"] == "unfit_answer"
        assert result.facts["state"] == "active"
        await agent.call("saga_abort", saga_id=result.facts["id"])
    assert desk.did == ["add a", "remove 7"]


async def test_arguments_are_judged_by_the_upstreams_schema_before_anything_is_sent(desk: Desk) -> None:
    desk.configure(PAIRED)
    async with desk.open() as agent:
        await agent.until_up()
        result = await agent.call("ledger_add", item=5, mode="often")
        named = await agent.call("ledger_add", itme="a")
    assert result.text.startswith("Nothing was sent: ")
    assert "item: the value is not of type" in result.text
    assert "mode: the value is not one of" in result.text
    assert 'did you mean "item"' in named.text
    assert desk.called("add") == 0


async def test_arguments_keep_their_values_and_get_the_stated_defaults(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        details = {"n": 2**63 - 1, "m": -(2**63), "none": None, "list": [1.5, "1"], "text": "ü\u2028"}
        await agent.call("ledger_add", item="a", details=details)
        await agent.call("ledger_add", item="b", details='{"as": "text"}')
    first, second = [line["args"] for line in desk.lines if line["do"] == "called" and line["tool"] == "add"]
    assert first == {"item": "a", "details": details}
    assert second == {"item": "b", "details": {"as": "text"}}


@pytest.mark.slow
async def test_a_person_asks_the_probe_of_an_undo_in_doubt_once_it_can_tell(desk: Desk) -> None:
    undo = 'undo = { tool = "ledger.remove", args = { id = "${args.id}", mode = "invalid_params_after" }'
    probe = 'probe = { tool = "ledger.look", landed = "${now.result.entries[0].id != 5}" }'
    desk.configure(
        f'[tools."ledger.add"]\nsettle_s = 0\n{undo}, {probe} }}\n',
        upstream=DECLARED["error_means"],
    )
    async with desk.serve() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=5)
        await agent.call("saga_abort", saga_id=added.facts["id"])
        await agent.until(added.facts["id"], "needs_attention")
        item = f"{added.facts['id']}.1"
        code, said = await desk.run("attention")
        assert "probe | resolve --undone | retry | exempt" in said
        code, said = await desk.run("probe", item, "--yes")
        assert (code, "cannot tell" in said) == (1, True), said
        await agent.call("ledger_add", item="b", id=9)
        code, said = await desk.run("probe", item, "--yes")
        assert (code, "The probe says that the undo of ledger.add happened." in said) == (0, True), said
    assert desk.called("remove") == 1


@pytest.mark.parametrize("flag", [None, False, True])
def test_an_answer_whose_error_flag_can_be_read_says_what_it_says(flag: bool | None) -> None:  # noqa: FBT001 - a value
    raw: JsonObject = {"content": [{"type": "text", "text": "did"}], "isError": flag}
    assert Answers.of(AnswerRules()).read(raw, {}).effect is (Effect.NONE if flag else None)


UNREADABLE: list[JsonObject] = [
    {"content": "nope"},
    {"content": None},
    {"content": {"type": "text", "text": "did"}},
    {"content": ["did"]},
    {"content": [{"text": "did"}]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "text", "text": {"a": 1}}], "structuredContent": {"a": 1}},
    {"content": [{"type": "text", "text": "did"}], "isError": "true"},
    {"content": [{"type": "text", "text": "did"}], "isError": "false"},
    {"content": [{"type": "text", "text": "did"}], "isError": 1},
    {"content": [{"type": "text", "text": "did"}], "isError": 0},
]


@pytest.mark.parametrize("raw", UNREADABLE, ids=str)
@pytest.mark.parametrize("rules", [AnswerRules(), AnswerRules(no_effect_when=True), AnswerRules(result="${1}")])
def test_an_answer_that_cannot_be_read_says_nothing(raw: JsonObject, rules: AnswerRules) -> None:
    read = Answers.of(rules).read(raw, {})
    assert (read.effect, read.undecided, read.answer.is_error) == (Effect.UNKNOWN, True, True)
    assert "cannot be read" in read.answer.text


@pytest.mark.parametrize("raw", [{}, {"content": []}, {"content": [{"type": "hologram", "x": 1}]}], ids=str)
def test_an_answer_with_little_or_something_new_in_it_can_be_read(raw: JsonObject) -> None:
    assert Answers.of(AnswerRules()).read(raw, {}).effect is None
