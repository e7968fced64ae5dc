"""What is wrong with a config: every problem at once, each with its key, and what to do."""

from pathlib import Path

import pytest
from tests.config.written import CREATE, CRM, PLAIN, problems, read, tools, write

from saga_mcp.config import ConfigInvalid, load_config


def test_every_problem_is_told_at_once_with_its_key_and_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
[saga]
nmae = "x"
on_error = "abrt"
replay_window_s = -1

[sgaa]

[upstreams.fs]
command = "npx"

[python.travel]
path = "travel.py:regstry"

[python.crm]
path = "crm.py"
functions = ["create_lead", "delete_lead"]

[tools."crm.create_lead"]
undo = [
  { when = "${args.name.startWith('x')}", tool = "crm.delet_lead" },
  { tool = "crm.delete_lead", args = { lead = "${result.led_id}" }, retry = { attempts = 0 } },
  { manual = "x", leave = "y", done_wen = "z" },
]
timeout_s = "30"
secret = ["nam"]
gaurd = 1

[tools."crm.delete_lead"]
hard_deadline_s = 1

[tools."tarvel.book"]
[tools."crm.creat_lead"]
[tools."fs.write"]
""",
    )
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, {})
    create = 'tools."crm.create_lead"'
    assert [(found.key, found.message, found.line) for found in caught.value.problems] == [
        ("saga.nmae", "unknown key; did you mean name?", 3),
        ("saga.on_error", 'must be "abort" or "hold"; did you mean abort?', 4),
        ("saga.replay_window_s", "must be greater than or equal to 0", 5),
        ("sgaa", "unknown table; did you mean saga?", 7),
        ("python.travel.path", "it holds no `regstry`; did you mean registry?", 13),
        (f"{create}.undo[1].retry.attempts", "must be greater than or equal to 1", 20),
        (f"{create}.undo[2].done_wen", "unknown key; did you mean done_when?", 20),
        (f"{create}.undo[2]", "give one of tool, manual, leave or nothing, not manual and leave", 20),
        (f"{create}.undo[0].when", "unknown method startWith; did you mean startsWith?", 20),
        (f"{create}.undo[0].tool", "there is no function crm.delet_lead; did you mean crm.delete_lead?", 20),
        (f"{create}.undo[1].args", "crm.create_lead has no result.led_id; did you mean lead_id?", 20),
        (f"{create}.undo[1].args.lead", "crm.delete_lead has no parameter lead; did you mean lead_id?", 20),
        (f"{create}.undo[1].args", "crm.delete_lead needs lead_id", 20),
        (f"{create}.timeout_s", "must be a number", 25),
        (f"{create}.secret[0]", "there is no parameter nam; did you mean name?", 26),
        (f"{create}.gaurd", "unknown key; did you mean guard?", 27),
        ('tools."crm.delete_lead"', caught.value.problems[-5].message, 29),
        ('tools."crm.delete_lead".hard_deadline_s', "is shorter than timeout_s, 30", 30),
        ('tools."tarvel.book"', 'there is no python.tarvel; keys are "NAME.function"; did you mean travel?', 32),
        ('tools."crm.creat_lead"', "python.crm has no tool creat_lead; did you mean crm.create_lead?", 33),
        ('tools."fs.write"', caught.value.problems[-1].message, 34),
    ]
    assert all(caught.value.problems[at].message.startswith("nothing undoes it: give it undo") for at in (-5, -1))


def test_problems_and_warnings_read_as_a_table(tmp_path: Path) -> None:
    """WORDING.md, first minutes of a person."""
    path = write(tmp_path, PLAIN + CREATE + '[tools."crm.count_leads"]\nkind = "readonly"\n')
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, {})
    assert str(caught.value) == (
        "saga.toml: 1 error, 1 warning\n"
        ' error tools."crm.count_leads".kind  must be "read_only", "compensable", "pivot" or "retriable"; '
        "did you mean read_only? (line 9)\n"
        ' warn  tools."crm.create_lead"       undo names result: a lost reply would go to a person; add a probe '
        "(line 6)"
    )


def test_what_a_person_should_know_is_a_warning(tmp_path: Path) -> None:
    loaded = read(tmp_path, PLAIN + CREATE)
    assert [(warning.key, warning.message) for warning in loaded.warnings] == [
        ("python.crm", '"count_leads" has no table in [tools], so it is not offered'),
        ('tools."crm.create_lead"', "undo names result: a lost reply would go to a person; add a probe"),
    ]


LEAVE = 'undo = { leave = "x" }\n'


@pytest.mark.parametrize(
    ("toml", "key", "message"),
    [
        ("", "", "nothing undoes it: give it undo"),
        ("undo = []", "", "nothing undoes it: give it undo"),
        ('kind = "retriable"', "", "a retriable tool cannot be repeated blindly"),
        ('kind = "pivot"\nundo = { nothing = true }', ".undo", "a pivot tool has no undo"),
        ("undo = 3", ".undo", "must be a table, or a list of tables"),
        ("undo = { args = {} }", ".undo", "give one of tool, manual, leave or nothing, not none"),
        ('undo = { leave = "x", each = "${[1]}" }', ".undo", "only together with tool: each"),
        ('undo = { leave = "x", when = 3 }', ".undo.when", "must be true, false or a condition"),
        (
            'undo = { tool = "crm.count_leads", each = "lead ${args.name}" }',
            ".undo.each",
            "must be one ${...} for a list",
        ),
        ("undo = { tool = 3 }", ".undo.tool", "must be a string"),
        ('undo = [{ leave = "x" }, 3]', ".undo[1]", "must be a table"),
        ('undo = { leave = "x", retry = 3 }', ".undo.retry", "must be a table"),
        ('undo = { leave = "x", retry = {} }', ".undo.retry.attempts", "is required"),
        ('undo = { tool = "nowhere.f" }', ".undo.tool", "there is no function nowhere.f"),
        (
            """undo = { tool = "crm.delete_lead", args = { lead_id = "${step.undo_key + 'x'}" } }""",
            ".undo.args",
            "step.undo_key can only be a whole argument",
        ),
        ('undo = { leave = "${item}" }', ".undo.leave", "unknown variable item"),
        ('undo = { leave = "${capture.text}" }', ".undo.leave", "nothing is read for capture: give the tool capture"),
        ('undo = { leave = "${saga.name}" }', ".undo.leave", "there is no saga.name"),
        (
            LEAVE + "retry = { attempts = 2, first_delay_s = 1, max_delay_s = 0.1 }",
            ".retry",
            "max_delay_s is less than first_delay_s",
        ),
        (LEAVE + "timeout_s = inf", ".timeout_s", "must be a finite number"),
        (LEAVE + "idempotent = 1", ".idempotent", "must be true or false"),
        (LEAVE + 'secret = ["name"]\nresource = "${args.name}"', ".resource", "name is secret, and whoever is refused"),
        (LEAVE + 'secret = ["name"]\nresource = "${args}"', ".resource", "name is secret, and whoever is refused"),
        (LEAVE + 'secret = ["name"]\nforce = { name = "x" }', ".force.name", "name is secret, and what is forced is"),
    ],
)
def test_a_tool_that_cannot_be_served_is_a_problem(tmp_path: Path, toml: str, key: str, message: str) -> None:
    found = problems(tmp_path, f'{PLAIN}[tools."crm.create_lead"]\n{toml}\n')
    assert list(found) == [f'tools."crm.create_lead"{key}']
    assert found[f'tools."crm.create_lead"{key}'].startswith(message)


UNREADABLE = {
    "bogus = 1": ".bogus",
    "secret = 1": ".secret",
    'settle_s = "soon"': ".settle_s",
    "retry = { atempts = 3 }": ".retry.atempts",
    'on_repeat = "never"': ".on_repeat",
}
MEANINGLESS = {
    'undo = { tool = "crm.delet_lead" }': ".undo.tool",
    'undo = { tool = "crm.delete_lead", args = { lead_id = "${resul.lead_id}" } }': ".undo.args.lead_id",
    'undo = { leave = "x", when = "${startWith(args.name)}" }': ".undo.when",
    'undo = { leave = "${1 +}", urgency = "hi" }': ".undo.leave",
    'undo = { manual = "x", leave = "y", timeout_s = "z" }': ".undo",
    'undo = { leave = "x" }\ntimeout_s = 3\nhard_deadline_s = 2': ".hard_deadline_s",
    'undo = { nothing = true }\nkind = "pivot"': ".undo",
    'kind = "retriable"': "",
    'error_means = "no_effect"': "",
}


@pytest.mark.parametrize("unreadable", UNREADABLE)
@pytest.mark.parametrize("meaningless", MEANINGLESS)
@pytest.mark.parametrize("code", [True, False], ids=["code", "no-code"])
def test_what_cannot_be_read_hides_nothing_else_in_its_table(
    tmp_path: Path,
    unreadable: str,
    meaningless: str,
    code: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    python = PLAIN if code else PLAIN.replace("crm.py", "gone.py")
    found = problems(tmp_path, f'{python}[tools."crm.create_lead"]\n{meaningless}\n{unreadable}\n')
    expected = {UNREADABLE[unreadable], MEANINGLESS[meaningless]}
    if not code:  # what the function takes, and whether its author paired it, nobody knows then
        expected -= {"", ".undo.tool"}
    assert {f'tools."crm.create_lead"{key}' for key in expected} <= found.keys()


@pytest.mark.parametrize(
    ("toml", "key", "message"),
    [
        ('unod = { leave = "x" }', ".unod", "unknown key; did you mean undo?"),
        ('undo = { tol = "crm.delete_lead" }', ".undo.tol", "unknown key; did you mean tool?"),
        (LEAVE + 'hard_deadline_s = 20\ntimeout_s = "5"', ".timeout_s", "must be a number"),
        ('kind = "retriabel"', ".kind", 'must be "read_only", "compensable", "pivot" or "retriable"'),
        ('kind = "retriable"\nidempotnet = true', ".idempotnet", "unknown key; did you mean idempotent?"),
    ],
)
def test_nothing_follows_from_what_cannot_be_read(tmp_path: Path, toml: str, key: str, message: str) -> None:
    found = problems(tmp_path, f'{PLAIN}[tools."crm.create_lead"]\n{toml}\n')
    assert list(found) == [f'tools."crm.create_lead"{key}']
    assert found[f'tools."crm.create_lead"{key}'].startswith(message)


def test_a_section_with_one_problem_is_read_all_the_same(tmp_path: Path) -> None:
    saga = '[saga]\non_idle = "abort"\nidle_flag_s = 9\nidle_end_s = 5\nreply_within_s = -1\ndatabase = "mysql://x"\n'
    python = '[python.crm]\npath = "crm.py"\nfunctions = ["create_lead", "nope"]\n'
    create = 'undo = { tool = "crm.nope", args = { id = "${resul.id}" } }\n'
    nope = 'kind = "pivot"\nundo = { leave = "${1 +}" }\n'
    tools = f'[tools."crm.create_lead"]\n{create}[tools."crm.nope"]\n{nope}'
    assert list(problems(tmp_path, saga + python + tools)) == [
        "saga",
        "saga.reply_within_s",
        "saga.database",
        "python.crm.functions[1]",
        'tools."crm.create_lead".undo.args.id',
        'tools."crm.nope".undo',
        'tools."crm.nope".undo.leave',
    ]


def test_an_undo_into_a_table_with_problems_of_its_own_adds_none(tmp_path: Path) -> None:
    toml = '[python.gone]\npath = "gone.py:r"\n[tools."crm.create_lead"]\nundo = { tool = "gone.f" }\n'
    assert list(problems(tmp_path, PLAIN + toml)) == ["python.gone.path"]


def test_results_without_a_shape_are_not_compared_and_deep_values_are_searched(tmp_path: Path) -> None:
    code = CRM.replace("-> Lead:", "-> dict[str, int]:").replace(
        "delete_lead(lead_id: int)", "delete_lead(leads: list[int])"
    )
    toml = PLAIN + CREATE.replace("{ lead_id = ", "{ leads = [").replace('" } }', '"] } }')
    assert tools(read(tmp_path, toml, crm=code))["crm.create_lead"].pair.undo[0].args == {
        "leads": ["${result.lead_id}"]
    }
    wrong = problems(tmp_path, toml.replace("result.lead_id", "file:x"), crm=code)
    assert list(wrong) == ['tools."crm.create_lead".undo.args']


def test_a_saga_is_flagged_before_it_is_ended(tmp_path: Path) -> None:
    assert problems(tmp_path, '[saga]\non_idle = "commit"\nidle_flag_s = 60\nidle_end_s = 30\n') == {
        "saga": "idle_end_s is less than idle_flag_s"
    }


def test_what_is_wrong_in_the_code_is_listed_with_what_is_wrong_in_the_config(tmp_path: Path) -> None:
    code = """
from saga_tools import ToolRegistry
registry = ToolRegistry()

@registry.invariant
async def rule(results: dict[str, int]) -> None: ...
"""
    path = write(tmp_path, '[python.shop]\npath = "shop.py:registry"\n', shop=code)
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, {})
    assert [str(problem) for problem in caught.value.problems] == [
        "python.shop: rule: an invariant is asked at once; make it a plain function (shop.py:5)",
    ]


def test_two_tools_of_one_name_are_a_problem(tmp_path: Path) -> None:
    toml = '[python.a]\npath = "travel.py:registry"\n[python.b]\npath = "travel.py:registry"\n'
    assert problems(tmp_path, toml)["python.b"].startswith("offers `look`, and so does python.a; rename one")


@pytest.mark.parametrize(
    ("text", "where", "line"),
    [
        ("[saga\n", "is not TOML", 1),
        ('[saga]\nname = "a"\nname = "b"\n', "is not TOML", 3),
        (f"a = {'[' * 3000}{']' * 3000}", "cannot be read: it is nested too deep", None),
        (f"a = {'9' * 5000}", "cannot be read: Exceeds the limit", None),
    ],
)
def test_a_file_that_is_no_toml_says_where(tmp_path: Path, text: str, where: str, line: int | None) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigInvalid, match=where) as caught:
        load_config(path, {})
    assert [problem.line for problem in caught.value.problems] == [line]


def test_a_line_that_only_looks_like_a_header_misplaces_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, '[saga]\nname = [\n[1, 2]\n]\nnmae = "x"\n')
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, {})
    assert [(problem.key, problem.line) for problem in caught.value.problems] == [("saga.name", 2), ("saga.nmae", 5)]


def test_a_list_of_functions_names_functions(tmp_path: Path) -> None:
    toml = '[python.crm]\npath = "crm.py"\nfunctions = ["create_lead", 3]\n'
    assert problems(tmp_path, toml) == {"python.crm.functions[1]": "must be a string"}


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "saga.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_config(path, {})


@pytest.mark.parametrize("text", ["[1]", "{,}"])
def test_a_file_that_is_no_json_object_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "saga.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigInvalid):
        load_config(path, {})


@pytest.mark.parametrize("section", ["saga", "python", "tools"])
def test_a_section_that_is_no_table_is_a_problem(tmp_path: Path, section: str) -> None:
    assert problems(tmp_path, f"{section} = 3\n") == {section: "must be a table"}
