"""`saga-mcp try`: what a call would come to, and that it is not made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adopting.desk import Answer, Desk
from tests.upstream.desk import Desk as Ledger

FILE: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
WRITE: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {"type": "string"}, "mode": {"enum": ["put", "add", "ask"]}},
    "required": ["path", "text"],
}
TOOLS: dict[str, Any] = {
    "write": {
        "inputSchema": WRITE,
        "outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    },
    "read": {"inputSchema": FILE, "annotations": {"readOnlyHint": True}},
    "remove": FILE,
    "count": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
}
CONFIG = """
read_only = ["read"]

[tools."up.write"]
capture = { tool = "up.read", args = { path = "${args.path}" }, absent_when = "${now.text == 'none'}" }
undo = [
  { when = "${capture.found}", tool = "up.write", args = { path = "${args.path}", text = "${capture.text}" } },
  { when = "${!capture.found}", tool = "up.remove", args = { path = "${args.path}" }, safe_if_absent = true },
  { when = "${args.text == 'twice'}", tool = "up.count", args = { id = "${result.id}" } },
]

[tools."up.count"]
cases = [
  { when = "${args.id > 10}", kind = "pivot" },
  { when = "${args.id > 0}", undo = { manual = "count ${args.id} down" } },
]
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def attempt(desk: Desk, tool: str, args: object, *arguments: str, there: str = "old") -> Answer:
    lines = [f"{key} = {json.dumps(value)}" for key, value in desk.server("s", TOOLS, gives={"read": there}).items()]
    desk.config.write_text(
        "\n".join(['[saga]\nname = "x"\ndatabase = "sqlite:///x.db"\n[upstreams.up]', *lines, CONFIG])
    )
    return desk.run("try", tool, json.dumps(args), "--config", str(desk.config), *arguments)


def test_the_capture_is_read_and_nothing_else_is_called(desk: Desk) -> None:
    answer = attempt(desk, "up_write", {"path": "a", "text": "new"})
    assert answer.code == 0, answer
    assert desk.log == ["started", "called read"]
    assert answer.out == (
        "up.write (compensable)\n"
        '  arguments  {"path": "a", "text": "new"}\n'
        '  capture    up.read: found "old"\n'
        '  result     {"id": 1} (a sample made from its schema; --result JSON gives another)\n'
        '  undo 1     up.write {"path": "a", "text": "old"}\n'
        "  undo 2     up.remove does not run: ${!capture.found} is false\n"
        "  undo 3     up.count does not run: ${args.text == 'twice'} is false\n"
        "  lost reply a person would be asked: nothing says that its undo is safe_if_absent, and it has no probe\n"
        "\n"
        "Nothing was called but up.read, which only reads.\n"
    )
    assert not desk.config.with_name("x.db").exists()


def test_another_world_chooses_another_undo(desk: Desk) -> None:
    tried = attempt(desk, "up.write", {"path": "a", "text": "new"}, "--json", there="none").json
    assert [(entry["tool"], entry["chosen"]) for entry in tried["undo"]] == [
        ("up.write", False),
        ("up.remove", True),
        ("up.count", False),
    ]
    assert tried["capture"] == {"tool": "up.read", "found": False, "result": None, "text": ""}


def test_a_given_result_fills_the_undo_and_what_its_tool_does_not_take_is_said(desk: Desk) -> None:
    twice = {"path": "a", "text": "twice"}
    fits = attempt(desk, "up.write", twice, "--json", "--result", '{"id": 7}')
    assert (fits.code, fits.json["undo"][2]["parts"][0]["args"]) == (0, {"id": 7})
    unfit = attempt(desk, "up.write", twice, "--json", "--result", '{"id": "seven"}')
    assert (unfit.code, unfit.json["undo"][2]["parts"][0]["problems"]) == (
        1,
        ['id: the value is not of type "integer"'],
    )
    lacking = attempt(desk, "up.write", twice, "--json", "--result", "{}")
    assert (lacking.code, lacking.json["cannot_be_built"]) == (1, "undo[2]: .id: ${result.id}: result.id is missing")


def test_the_case_that_holds_is_shown_and_a_call_without_one_is_refused(desk: Desk) -> None:
    assert attempt(desk, "up.count", {"id": 11}, "--json").json["kind"] == "pivot"
    second = attempt(desk, "up.count", {"id": 2}, "--json").json
    assert (second["case"], second["undo"][0]["parts"][0]["message"]) == (1, "count 2 down")
    refused = attempt(desk, "up.count", {"id": 0}, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (1, "invalid_arguments")


def test_arguments_that_do_not_fit_are_all_named_and_nothing_is_called(desk: Desk) -> None:
    answer = attempt(desk, "up.write", {"path": 1, "mode": "sing"})
    assert (answer.code, desk.log) == (1, ["started"])
    named = {line.partition(":")[0].strip() for line in answer.err.splitlines()[1:]}
    assert named == {"path", "mode", "arguments"}


@pytest.mark.parametrize(("tool", "args"), [("up.writ", "{}"), ("up.write", "[]"), ("up.write", "{")])
def test_what_cannot_be_meant_is_wrong_usage(desk: Desk, tool: str, args: str) -> None:
    attempt(desk, "up.write", {"path": "a", "text": "b"})
    assert desk.run("try", tool, args, "--config", str(desk.config)).code == 2


@pytest.mark.slow
async def test_a_server_that_is_down_is_said_to_be(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.configure()
    ledger.config.write_text(ledger.config.read_text().replace("ledger_server.py", "no_such_server.py"))
    code, said = await ledger.run("try", "ledger.add", '{"item": "a"}')
    assert (code, "ledger is down" in said) == (1, True)


@pytest.mark.slow
async def test_a_python_tool_is_tried_beside_upstreams_and_not_called(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.configure()
    code, said = await ledger.run("try", "note", '{"text": "milk"}')
    assert (code, ledger.notes, ledger.lines) == (0, [], [])
    assert 'notes.unnote {"text": "milk"}' in said


TEXT = """
[tools."ledger.say"]
failed_when = "${text.startsWith('Error')}"
result = "${json(regex(text, '(?s)<data>(.*)</data>', '{}'))}"
undo = { tool = "ledger.remove", args = { id = "${result.id}" }, when = "${text.contains('said')}" }
"""


@pytest.mark.slow
async def test_a_text_is_read_as_the_servers_answers_are(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.configure(TEXT)
    say = ("try", "ledger.say", '{"text": "a"}', "--text")
    code, said = await ledger.run(*say, 'said: <data>{"id": 7}</data>')
    assert (code, 'result     {"id": 7}' in said, 'ledger.remove {"id": 7}' in said) == (0, True, True)
    code, said = await ledger.run(*say, "Error: no such thing")
    assert (code, "this answer counts as a failure: Error: no such thing" in said) == (1, True)
    code, said = await ledger.run("try", "note", '{"text": "milk"}', "--text", "done")
    assert (code, "a Python tool answers with its result: give --result" in said) == (1, True)
    assert ledger.called("say") == 0


def with_crm(folder: Path) -> Ledger:
    """A config whose function `drop` is nothing but an undo."""
    ledger = Ledger(folder)
    ledger.configure()
    (folder / "crm.py").write_text("def add(name: str) -> None: ...\ndef drop(name: str) -> None: ...\n")
    pair = '[tools."crm.add"]\nundo = { tool = "crm.drop", args = { name = "${args.name}" } }\n'
    with ledger.config.open("a") as config:
        config.write(f'[python.crm]\npath = "crm.py"\nfunctions = ["add", "drop"]\n{pair}')
    return ledger


@pytest.mark.slow
@pytest.mark.parametrize("command", [("try", "crm.drop", "{}"), ("serve", "--inject", "step=crm.drop:after")])
async def test_a_function_that_is_only_an_undo_is_said_to_be_one(tmp_path: Path, command: tuple[str, ...]) -> None:
    code, said = await with_crm(tmp_path).run(*command)
    assert (code, "crm.drop is called by undos only" in said, "did you mean" in said) == (2, True, False), said


@pytest.mark.slow
async def test_a_name_that_comes_close_ends_the_sentence(tmp_path: Path) -> None:
    code, said = await with_crm(tmp_path).run("try", "crm.ad", "{}")
    assert (code, "did you mean crm.add?" in said, "?." in said) == (2, True, False), said


@pytest.mark.slow
async def test_check_says_what_only_undos_call(tmp_path: Path) -> None:
    ledger = with_crm(tmp_path)
    _, said = await ledger.run("check", "--offline")
    (row,) = [line.split("  ") for line in said.splitlines() if line.startswith("crm.drop")]
    assert [cell.strip() for cell in row if cell.strip()] == ["crm.drop", "-", "undo only", "-", "-"]


RESENT = """
[tools."ledger.add"]
idempotent = true
retry = {{ attempts = {attempts} }}
{kind}
"""
UNDONE = 'undo = { tool = "ledger.remove", args = { id = "${args.id}" }, safe_if_absent = true }'
END_KNOWN = "it would be undone once the call is known to have ended"
UNTIL = "it would be sent again with the same key until it succeeds, 5 times at the most; then a person would be asked"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attempts", "kind", "elsewhere", "said"),
    [
        (5, UNDONE, False, f"it would be sent again with the same key; then {END_KNOWN}"),
        (5, UNDONE, True, END_KNOWN),
        (1, UNDONE, False, END_KNOWN),
        (5, 'kind = "retriable"', False, UNTIL),
        (1, 'kind = "retriable"', False, "a person would be asked: it is sent once (retry)"),
    ],
)
async def test_a_lost_reply_is_said_to_be_made_up_for_as_it_is(
    tmp_path: Path,
    attempts: int,
    kind: str,
    elsewhere: bool,  # noqa: FBT001 - a case
    said: str,
) -> None:
    ledger = Ledger(tmp_path)
    ledger.configure(RESENT.format(attempts=attempts, kind=kind), upstream='scope = "shared"' if elsewhere else "")
    _, told = await ledger.run("try", "ledger.add", '{"item": "a", "id": 7}')
    assert f"  lost reply {said}\n" in told
