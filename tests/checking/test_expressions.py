"""`saga-mcp check` evaluates every expression on samples of the schemas that the servers list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adopting.desk import Answer, Desk

GOLDEN = Path(__file__).with_name("golden.txt")

ISSUE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "title": {"type": "string"},
        "parent": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "labels": {"type": "array", "items": {"$ref": "#/$defs/Label"}},
    },
    "required": ["number", "title"],
    "$defs": {"Label": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
}
NUMBER: dict[str, Any] = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS: dict[str, Any] = {
    "create": {
        "inputSchema": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "note": {"type": "string"},
                "method": {"enum": ["create", "update"]},
            },
            "required": ["title"],
        },
        "outputSchema": ISSUE,
    },
    "close": {
        "inputSchema": {
            "type": "object",
            "properties": {"number": {"type": "integer"}, "state": {"enum": ["closed", "deleted"]}},
            "required": ["number", "state"],
            "additionalProperties": False,
        }
    },
    "get": {"inputSchema": NUMBER, "outputSchema": ISSUE, "annotations": {"readOnlyHint": True}},
    "wipe": {"inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
    "list_all": {"inputSchema": {"type": "object"}},
    "peek": {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}},
    "say": {"inputSchema": {"type": "object"}},
}

MISTAKES = """
read_only = ["peek", "gett"]

[tools."up.create"]
undo = [
  { when = "${result.nmber > 0}", tool = "up.close", args = { number = "${result.number}", state = "closed" } },
  { when = "${size(args.note) > 0}", tool = "up.close", args = { number = "${result.title}", state = "close" } },
  { each = "${result.labels}", tool = "up.clos", args = { id = "${item.id}" } },
  { each = "${result.title}", tool = "up.close", args = { number = "${item}" } },
  { tool = "up.close", args = { number = "${int(result.labels[0].idd)}", state = "closed", why = "x" } },
  { when = "${args.title}", tool = "up.close", args = { number = "${result.parent}", state = "closed" } },
  { when = "${has(args.note)}", leave = "note ${args.note} ${args.note.startWith('x')}" },
]

[tools."up.make"]
kind = "pivot"

[tools."up.get"]
kind = "pivot"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def check(desk: Desk, more: str, *arguments: str, tools: dict[str, Any] | None = None) -> Answer:
    server = desk.server("tracker", tools or TOOLS)
    lines = [f"{key} = {json.dumps(value)}" for key, value in server.items()]
    desk.config.write_text("\n".join(['[saga]\nname = "x"\ndatabase = "sqlite:///x.db"\n[upstreams.up]', *lines, more]))
    return desk.run("check", "--config", str(desk.config), *arguments)


def undoes(desk: Desk, undo: str) -> list[tuple[str, str]]:
    """What is found of an undo of `create`: keys and messages."""
    answer = check(desk, f'[tools."up.create"]\nundo = {undo}', "--json").json
    found = [*answer["errors"], *(each for each in answer["warnings"] if not each["key"].startswith("upstreams"))]
    return [(each["key"].replace('tools."up.create".', ""), each["message"]) for each in found]


def test_a_dozen_mistakes_are_reported_at_once(desk: Desk) -> None:
    answer = check(desk, MISTAKES)
    assert answer.code == 2
    assert answer.out.partition("\n\n")[0] == GOLDEN.read_text().rstrip("\n")


def test_what_is_right_for_every_call_is_not_mentioned(desk: Desk) -> None:
    right = [
        '{ when = "${has(args.note) && args.note.startsWith(\'x\')}", leave = "${args.note}" }',
        '{ each = "${has(result.labels) ? result.labels : []}", tool = "up.say", args = { id = "${item.id}" } }',
        '{ tool = "up.close", args = { number = "${result.number}", state = "closed" } }',
        '{ when = "${args.title == \'never\'}", leave = "${args.note}" }',
        "{ leave = \"${regex(args.title, 'nowhere ([0-9]+)')}\" }",
    ]
    found = undoes(desk, f"[{', '.join(right)}]")
    assert [key for key, _ in found] == ['tools."up.create"']  # of the pair as a whole: it has no probe


@pytest.mark.parametrize(
    ("undo", "key", "message"),
    [
        (
            "{ leave = \"${result.labels.filter(l, l.name == 'x')}\" }",
            "undo.leave",
            "cannot be evaluated: a member is missing",
        ),
        ('{ leave = "${args.title + 1}" }', "undo.leave", "cannot be evaluated: an operation does not fit the types"),
        ('{ leave = "${results.up_creat.number}" }', "undo.leave", "there is no results.up_creat; did you mean up_"),
        (
            '{ when = "${has(args.noet)}", nothing = true }',
            "undo.when",
            "there is no args.noet; did you mean note?, so",
        ),
        (
            '{ tool = "up.close", args = { number = "${result.parent}", state = "closed" } }',
            "undo.args.number",
            "result.parent is missing for some calls",
        ),
        (
            '{ tool = "up.close", args = { number = "${result.parent}", state = "closed" } }',
            "undo.args.number",
            "may be null, which up.close does not take",
        ),
    ],
)
def test_a_mistake_is_placed_and_explained(desk: Desk, undo: str, key: str, message: str) -> None:
    assert [found for found in undoes(desk, undo) if found[0] == key and found[1].startswith(message)]


def test_what_no_schema_describes_is_said_to_be_untried(desk: Desk) -> None:
    answer = check(desk, '[tools."up.say"]\nundo = { leave = "${result.id}" }', "--json")
    assert (answer.code, answer.json["untried"]) == (0, ['tools."up.say".undo.leave'])


def test_the_same_mistake_is_reported_once_where_the_file_alone_shows_it(desk: Desk) -> None:
    answer = check(desk, '[tools."up.create"]\nundo = { leave = "${reslt.id}" }', "--json")
    assert [each["message"] for each in answer.json["errors"]] == ["unknown variable reslt; did you mean result?"]


def test_how_answers_are_read_is_tried_too(desk: Desk) -> None:
    rules = [
        'failed_when = "${text + 1 == text}"',
        "result = \"${json(regex(text, 'data: (.*)'))}\"",
        '[tools."up.create"]',
        'failed_when = "${args.titel == text}"',
        'no_effect_when = "${has(result.error)}"',
        'kind = "pivot"',
    ]
    found = check(desk, "\n".join(rules), "--json").json
    assert [(each["key"], each["message"][:40]) for each in found["errors"]] == [
        ("upstreams.up.failed_when", "cannot be evaluated: an operation does n"),
        ('tools."up.create".failed_when', "there is no args.titel; did you mean tit"),
    ]
    assert found["untried"] == ['tools."up.create".no_effect_when']


def test_only_a_probe_may_say_that_it_cannot_tell(desk: Desk) -> None:
    never = "${size(%s.title) < 0 ? true : null}"
    probe = f'{{ tool = "up.get", args = {{ number = 1 }}, landed = "{never % "now.result"}" }}'
    undo = '{ tool = "up.close", args = { number = 1, state = "closed" } }'
    pairs = [
        f"undo = {undo}\nprobe = {probe}",
        f"undo = {undo[:-1]}, probe = {probe} }}",
        f'undo = {{ when = "{never % "result"}", nothing = true }}',
    ]
    found: list[list[str]] = []
    for pair in pairs:
        answer = check(desk, f'read_only = ["get"]\n[tools."up.create"]\n{pair}\n', "--json").json
        found.append([each["key"] for each in answer["errors"]])
    assert found == [[], [], ['tools."up.create".undo.when']]
