"""What a tool of the config reads before, after and for its undo: keys, checks, and what is frozen of them."""

from pathlib import Path

import pytest
from tests.config.written import CREATE, PLAIN, problems, read, tools

from saga_mcp.domain.values import Kind
from saga_mcp.tools.pair import Capture, Guard, KeyFormat, Probe, ReadCall

COUNT = '[tools."crm.count_leads"]\nkind = "read_only"\n'
UNDO = 'undo = { tool = "crm.delete_lead", args = { lead_id = "${result.lead_id}" } }\n'
CAPTURE = 'capture = { tool = "crm.count_leads" }\n'


def on_create(more: str) -> str:
    return f'{PLAIN}{COUNT}[tools."crm.create_lead"]\n{more}'


def test_what_is_written_is_what_is_frozen(tmp_path: Path) -> None:
    written = """
capture = { tool = "crm.count_leads", absent_when = "${now.text == ''}", exact_when = true, max_bytes = 9 }
after = { tool = "crm.count_leads" }
guard = { ignore_order = true }
probe = { tool = "crm.count_leads", landed = "${now.result > 0}", result = { lead_id = "${now.result}" } }
resource = "lead:${args.name}"
key_arg = "name"
key_format = "uuid"
"""
    loaded = read(tmp_path, on_create(UNDO + written))
    pair = tools(loaded)["crm.create_lead"].pair
    count = ReadCall(tool="crm.count_leads", target_id=pair.target_id)
    assert pair.capture == Capture(call=count, absent_when="${now.text == ''}", max_bytes=9)
    assert pair.after == Capture(call=count)
    assert pair.guard == Guard(ignore_order=True)
    assert pair.probe == Probe(call=count, landed="${now.result > 0}", result={"lead_id": "${now.result}"})
    assert (pair.has_probe, pair.resource, pair.key_arg) == (True, "lead:${args.name}", "name")
    assert (pair.key_format, pair.force) == (KeyFormat.UUID, {})


def test_unchanged_is_a_guard_of_its_own_capture(tmp_path: Path) -> None:
    pair = tools(read(tmp_path, on_create(UNDO + CAPTURE + 'guard = "unchanged"\n')))["crm.create_lead"].pair
    assert pair.guard == Guard()


def test_an_undo_can_read_and_be_asked_about(tmp_path: Path) -> None:
    undo = """
undo = { tool = "crm.delete_lead", args = { lead_id = "${read.result}" }, read = { tool = "crm.count_leads" },
  probe = { tool = "crm.count_leads", landed = "${now.result == 0}" }, done_when = "${now.text.contains('gone')}",
  safe_if_absent = true }
"""
    (entry,) = tools(read(tmp_path, on_create(undo.replace("\n  ", " "))))["crm.create_lead"].pair.undo
    count = ReadCall(tool="crm.count_leads", target_id=entry.target_id)
    assert (entry.read, entry.done_when) == (count, "${now.text.contains('gone')}")
    assert entry.probe == Probe(call=count, landed="${now.result == 0}")


def test_a_tool_with_cases_is_to_agents_the_most_that_a_call_may_come_to(tmp_path: Path) -> None:
    cases = """
cases = [
  { when = "${args.name == ''}", kind = "read_only" },
  { when = "${args.name == 'x'}", undo = { leave = "x" } },
  { kind = "pivot" },
]
"""
    pair = tools(read(tmp_path, on_create(cases)))["crm.create_lead"].pair
    assert pair.kind is Kind.PIVOT
    assert [(case.when, case.pair.kind) for case in pair.cases] == [
        ("${args.name == ''}", Kind.READ_ONLY),
        ("${args.name == 'x'}", Kind.COMPENSABLE),
        (True, Kind.PIVOT),
    ]
    assert not any(case.pair.cases for case in pair.cases)


GONE = "unknown variable text"


@pytest.mark.parametrize(
    ("toml", "key", "message"),
    [
        (UNDO + 'guard = "unchaged"', ".guard", 'must be "unchanged" or a table'),
        (UNDO + 'guard = "unchanged"', ".guard", "nothing is captured that could be unchanged"),
        (UNDO + CAPTURE + 'guard = { as_left = "${true}" }', ".guard", "only together with tool: as_left"),
        (UNDO + 'guard = { tool = "crm.count_leads" }', ".guard", "say as_left"),
        (
            UNDO + 'capture = { tool = "crm.delete_lead", args = { lead_id = 1 } }',
            ".capture.tool",
            'crm.delete_lead is not known to be read-only; give it kind = "read_only"',
        ),
        (
            UNDO + 'capture = { tool = "crm.count_lead" }',
            ".capture.tool",
            "there is no function crm.count_lead; did you mean crm.count_leads?",
        ),
        (UNDO + "capture = {}", ".capture.tool", "is required"),
        (
            UNDO + 'capture = { tool = "crm.count_leads", absent_when = "${result == 1}" }',
            ".capture.absent_when",
            "unknown variable result",
        ),
        (
            UNDO + 'capture = { tool = "crm.count_leads", exact_when = "${now.txt == 1}" }',
            ".capture.exact_when",
            "there is no now.txt; did you mean text?",
        ),
        (
            UNDO + 'probe = { tool = "crm.count_leads" }',
            ".probe.landed",
            "is required",
        ),
        ('kind = "read_only"\nresource = "x"', ".resource", "a read_only tool holds nothing"),
        (UNDO + 'key_arg = "nam"', ".key_arg", "crm.create_lead has no parameter nam; did you mean name?"),
        (UNDO + "force = { nam = 1 }", ".force.nam", "crm.create_lead has no parameter nam; did you mean name?"),
        (UNDO + 'key_format = "octal"', ".key_format", 'must be "base32", "hex" or "uuid"'),
        ('cases = [{ kind = "pivot" }]\nkind = "pivot"', "", "cases and kind: say it in the cases"),
        ('cases = [{ kind = "pivot", when = "${arg.x}" }]', ".cases[0].when", "unknown variable arg"),
        ('cases = [{ when = "${true}" }]', ".cases[0]", "nothing undoes it"),
        ('kind = "pivot"\n' + CAPTURE, ".capture", "a pivot tool has no capture"),
        ('undo = { leave = "x", done_when = "${true}" }', ".undo", "only together with tool: done_when"),
        (
            'undo = { tool = "crm.delete_lead", args = { lead_id = "${read.result}" }, safe_if_absent = true }',
            ".undo.args.lead_id",
            "unknown variable read",
        ),
        ('undo = { leave = "${after.text}" }', ".undo.leave", "nothing is read for after"),
        (UNDO + 'guard = { tool = "crm.count_leads", as_left = "${text == \'\'}" }', ".guard.as_left", GONE),
        (
            'undo = { tool = "crm.delete_lead", args = { lead_id = 1 }, done_when = "${text == 1}" }',
            ".undo.done_when",
            GONE,
        ),
        (UNDO + 'probe = { tool = "crm.count_leads", landed = "${text == \'\'}" }', ".probe.landed", GONE),
        (UNDO + 'probe = { tool = "crm.count_leads", landed = true, result = "${text}" }', ".probe.result", GONE),
    ],
)
def test_what_cannot_be_read_or_judged_is_a_problem(tmp_path: Path, toml: str, key: str, message: str) -> None:
    found = problems(tmp_path, on_create(toml + "\n"))
    assert [*found] == [f'tools."crm.create_lead"{key}']
    assert found[f'tools."crm.create_lead"{key}'].startswith(message)


def test_a_tool_that_is_not_said_to_be_read_only_reads_for_nobody(tmp_path: Path) -> None:
    found = problems(tmp_path, PLAIN + CREATE + 'capture = { tool = "crm.count_leads" }\n')
    said = 'crm.count_leads is not known to be read-only; give it kind = "read_only"'
    assert found == {'tools."crm.create_lead".capture.tool': said}
