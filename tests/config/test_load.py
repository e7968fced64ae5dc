"""Reading `saga.toml`: real files, real code, every problem at once."""

import json
import sys
from pathlib import Path

import pytest

from saga_mcp.config import ConfigInvalid, ConfigMissing, LoadedConfig, find_config, load_config
from saga_mcp.domain.values import Kind, OnError, OnUndoFailure, PartAction, Urgency
from saga_mcp.tools.declared import DeclaredTool
from saga_mcp.tools.pair import Retry

CRM = """
from pydantic import BaseModel

class Lead(BaseModel):
    lead_id: int

def create_lead(name: str) -> Lead:
    "Create a lead."
    return Lead(lead_id=1)

def delete_lead(lead_id: int) -> None: ...

def count_leads() -> int:
    return 1
"""
TRAVEL = """
from saga_tools import Call, ToolRegistry, Undo

registry = ToolRegistry()

@registry.tool(timeout_s=5, idempotent=True)
def book(city: str, seats: int = 1) -> dict[str, int]:
    return {"ref": 1}

@registry.undoes(book, safe_if_absent=False)
def unbook(city: str, undo: Undo[dict[str, int]]) -> None: ...

@registry.tool(kind="read_only")
def look() -> int:
    return 1
"""
PLAIN = """
[python.crm]
path = "crm.py"
functions = ["create_lead", "delete_lead", "count_leads"]
"""
CREATE = """
[tools."crm.create_lead"]
undo = { tool = "crm.delete_lead", args = { lead_id = "${result.lead_id}" } }
"""
ENV = {"LOG": "logs/saga.db"}


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep default databases and the import path of this process out of it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path / "data"


def write(folder: Path, toml: str, **files: str) -> Path:
    for name, text in {"crm": CRM, "travel": TRAVEL, **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    path = folder / "saga.toml"
    path.write_text(toml, encoding="utf-8")
    return path


def read(folder: Path, toml: str, **files: str) -> LoadedConfig:
    return load_config(write(folder, toml, **files), ENV)


def problems(folder: Path, toml: str, **files: str) -> dict[str, str]:
    path = write(folder, toml, **files)
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, ENV)
    return {problem.key: problem.message for problem in caught.value.problems}


def tools(loaded: LoadedConfig) -> dict[str, DeclaredTool]:
    return {tool.name: tool for registry in loaded.registries for tool in registry.tools}


# --- what it says -----------------------------------------------------------------------------------------------------


def test_every_key_of_saga_reaches_the_engine(tmp_path: Path) -> None:
    loaded = read(
        tmp_path,
        """
        [saga]
        name = "ops"
        database = "sqlite:///here/saga.db"
        saga_id = "required"
        on_error = "hold"
        on_undo_failure = "continue"
        idle_flag_s = 60
        on_idle = "flag"
        reply_within_s = 5
        probe_for_s = 0
        """,
    )
    settings = loaded.settings
    assert (settings.realm, settings.saga_id_required) == ("ops", True)
    assert (settings.on_error, settings.on_undo_failure) == (OnError.HOLD, OnUndoFailure.CONTINUE)
    assert (settings.reply_within_s, settings.probe_for_s, loaded.idle_flag_s) == (5.0, 0.0, 60.0)
    assert loaded.database == f"sqlite:///{tmp_path / 'here' / 'saga.db'}"
    assert not loaded.database_is_default


def test_pairs_of_code_come_as_their_author_wrote_them(tmp_path: Path) -> None:
    found = tools(read(tmp_path, '[python.travel]\npath = "travel.py:registry"\n'))
    assert list(found) == ["travel.book", "travel.look"]
    book = found["travel.book"].pair
    assert (book.kind, book.timeout_s, book.idempotent, book.safe_if_absent) == (Kind.COMPENSABLE, 5.0, True, False)
    assert [(entry.tool, entry.args) for entry in book.undo] == [("travel.unbook", {"city": "${args.city}"})]
    assert all(tool.governed and tool.offered for tool in found.values())


def test_plain_functions_are_paired_by_the_config(tmp_path: Path) -> None:
    loaded = read(tmp_path, PLAIN + CREATE)
    found = tools(loaded)
    assert found["crm.create_lead"].governed
    assert not found["crm.delete_lead"].governed
    entry = found["crm.create_lead"].pair.undo[0]
    assert (entry.action, entry.tool, entry.args) == (
        PartAction.CALL,
        "crm.delete_lead",
        {"lead_id": "${result.lead_id}"},
    )
    assert entry.idempotent
    assert found["crm.create_lead"].pair.safe_if_absent


def test_the_config_overrides_the_code_key_by_key(tmp_path: Path) -> None:
    found = tools(
        read(
            tmp_path,
            """
            [saga]
            on_error = "hold"
            [python.travel]
            path = "travel.py:registry"
            [tools."travel.book"]
            timeout_s = 7
            settle_s = 0
            retry = { attempts = 3, first_delay_s = 1, max_delay_s = 2 }
            idempotent = false
            error_means = "no_effect"
            undo = [
              { tool = "travel.unbook", args = { city = "${args.city}" }, when = "${args.seats > 1}", idempotent = false, retry = { attempts = 2 } },
              { manual = "Call ${args.city}.", urgency = "high" },
              { leave = "a booking of ${args}" },
              { nothing = true },
            ]
            [tools."travel.look"]
            offer = false
            """,  # noqa: E501 - an inline table of TOML is one line
        )
    )
    book = found["travel.book"]
    pair = book.pair
    assert (pair.timeout_s, pair.hard_deadline_s, pair.settle_s, pair.idempotent) == (7.0, 70.0, 0.0, False)
    assert pair.retry == Retry(attempts=3, first_delay_s=1.0, max_delay_s=2.0)
    assert (book.error_means, book.takes_step_key) == ("no_effect", True)
    assert [entry.action for entry in pair.undo] == [
        PartAction.CALL,
        PartAction.MANUAL,
        PartAction.LEAVE,
        PartAction.NOTHING,
    ]
    assert (pair.undo[0].idempotent, pair.undo[0].retry) == (
        False,
        Retry(attempts=2, first_delay_s=1.0, max_delay_s=300.0),
    )
    assert (pair.undo[1].message, pair.undo[1].urgency) == ("Call ${args.city}.", Urgency.HIGH)
    assert not found["travel.look"].offered


def test_a_config_may_make_a_paired_tool_a_pivot(tmp_path: Path) -> None:
    toml = '[python.travel]\npath = "travel.py:registry"\n[tools."travel.book"]\nkind = "pivot"\n'
    pair = tools(read(tmp_path, toml))["travel.book"].pair
    assert (pair.kind, pair.undo) == (Kind.PIVOT, ())


def test_json_takes_the_same_keys(tmp_path: Path) -> None:
    write(tmp_path, "")
    path = tmp_path / "saga.json"
    content = {"saga": {"name": "ops"}, "python": {"travel": {"path": "travel.py:registry"}}}
    path.write_text(json.dumps(content), encoding="utf-8")
    assert list(tools(load_config(path, ENV))) == ["travel.book", "travel.look"]


def test_a_module_may_be_named_instead_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "elsewhere"
    package.mkdir()
    (package / "acme_travel_tools.py").write_text(TRAVEL, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(package), *sys.path])
    assert "travel.book" in tools(read(tmp_path, '[python.travel]\nmodule = "acme_travel_tools:registry"\n'))


# --- where things are -------------------------------------------------------------------------------------------------


def test_each_config_has_a_realm_and_a_database_of_its_own(tmp_path: Path, data_folder: Path) -> None:
    """S1.1."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = read(tmp_path / "a", ""), read(tmp_path / "b", "")
    assert first.settings.realm.startswith("a-")
    assert first.settings.realm != second.settings.realm
    assert first.database == f"sqlite:///{data_folder / 'saga-mcp' / first.settings.realm}.db"
    assert first.database_is_default
    assert load_config(first.path, ENV).settings == first.settings


def test_a_realm_that_is_no_file_name_still_gets_a_file(tmp_path: Path, data_folder: Path) -> None:
    loaded = read(tmp_path, '[saga]\nname = "../Büro & Co"\n')
    file = Path(loaded.database.removeprefix("sqlite:///"))
    assert file.parent == data_folder / "saga-mcp"
    assert file.name.startswith("b-ro-co-")


def test_the_environment_and_files_are_filled_in_in_the_database_only(tmp_path: Path) -> None:
    assert read(tmp_path, '[saga]\ndatabase = "sqlite:///${env:LOG}"\n').database.endswith("/logs/saga.db")
    (tmp_path / "place").write_text("other.db\n", encoding="utf-8")
    assert read(tmp_path, '[saga]\ndatabase = "sqlite:///${file:place}"\n').database.endswith("/other.db")
    found = problems(tmp_path, PLAIN + CREATE.replace("${result.lead_id}", "${env:LOG}"))
    assert found == {
        'tools."crm.create_lead".undo.args': "${env:...} and ${file:...} are filled in only in saga.database"
    }


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:secret@h/d", "PostgreSQL is not supported by this version yet"),
        ("mysql://u:secret@h/d", "must be sqlite:///FILE"),
        ("sqlite:///:memory:", "must name a file: the saga log outlives the process"),
        ("sqlite:///a.db?mode=ro", "takes no options, and its path cannot hold a `?`"),
        ("sqlite:///${env:NOPE}", "the environment has no NOPE"),
        ("sqlite:///${file:nope}", "nope cannot be read: FileNotFoundError"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_problem_and_never_shown(tmp_path: Path, url: str, message: str) -> None:
    assert problems(tmp_path, f'[saga]\ndatabase = "{url}"\n') == {"saga.database": message}


def test_the_config_is_as_given_else_of_the_environment_else_here(tmp_path: Path) -> None:
    here, other, third = (tmp_path / name for name in ("saga.toml", "other.toml", "third.toml"))
    for path in (here, other, third):
        path.write_text("", encoding="utf-8")
    assert find_config(None, {}, tmp_path) == here
    assert find_config(None, {"SAGA_MCP_CONFIG": str(other)}, tmp_path) == other
    assert find_config(Path("third.toml"), {"SAGA_MCP_CONFIG": str(other)}, tmp_path) == third
    here.unlink()
    with pytest.raises(ConfigMissing, match=r"There is no config at .*saga\.toml.*--config"):
        find_config(None, {}, tmp_path)


# --- what is wrong with it --------------------------------------------------------------------------------------------


def test_every_problem_is_told_at_once_with_its_key_and_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
[saga]
nmae = "x"
on_error = "abrt"
audit_reads = true

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
  { manual = "x", leave = "y", done_when = "z" },
]
timeout_s = "30"
guard = "unchanged"
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
        ("saga.audit_reads", "not supported by this version yet", 5),
        ("sgaa", "unknown table; did you mean saga?", 7),
        ("upstreams", "not supported by this version yet", 9),
        ("python.travel.path", "it holds no `regstry`; did you mean registry?", 13),
        (f"{create}.undo[1].retry.attempts", "must be greater than or equal to 1", 20),
        (f"{create}.undo[2].done_when", "not supported by this version yet", 20),
        (f"{create}.undo[2]", "give one of tool, manual, leave or nothing, not manual and leave", 20),
        (f"{create}.undo[0].when", "unknown method startWith; did you mean startsWith?", 20),
        (f"{create}.undo[0].tool", "there is no function crm.delet_lead; did you mean crm.delete_lead?", 20),
        (f"{create}.undo[1].args", "crm.create_lead has no result.led_id; did you mean lead_id?", 20),
        (f"{create}.undo[1].args.lead", "crm.delete_lead has no parameter lead; did you mean lead_id?", 20),
        (f"{create}.undo[1].args", "crm.delete_lead needs lead_id", 20),
        (f"{create}.timeout_s", "must be a number", 25),
        (f"{create}.guard", "not supported by this version yet", 26),
        (f"{create}.gaurd", "unknown key", 27),
        ('tools."crm.delete_lead"', caught.value.problems[-4].message, 29),
        ('tools."crm.delete_lead".hard_deadline_s', "is shorter than timeout_s, 30", 30),
        ('tools."tarvel.book"', 'there is no python.tarvel; keys are "NAME.function"; did you mean travel?', 32),
        ('tools."crm.creat_lead"', "python.crm has no tool creat_lead; did you mean crm.create_lead?", 33),
    ]
    assert caught.value.problems[-4].message.startswith("nothing undoes it: give it undo")


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
        ("undo = 3", ".undo", "must be a list"),
        ("undo = { args = {} }", ".undo", "give one of tool, manual, leave or nothing, not none"),
        ('undo = { leave = "x", each = "${[1]}" }', ".undo", "args and each belong to tool"),
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
        ('undo = { leave = "${capture.text}" }', ".undo.leave", "capture is not supported"),
        ('undo = { leave = "${saga.name}" }', ".undo.leave", "there is no saga.name"),
        (LEAVE + 'on_repeat = "replay"', ".on_repeat", "not supported by this version yet"),
        (
            LEAVE + "retry = { attempts = 2, first_delay_s = 1, max_delay_s = 0.1 }",
            ".retry",
            "max_delay_s is less than first_delay_s",
        ),
        (LEAVE + "timeout_s = inf", ".timeout_s", "must be a finite number"),
        (LEAVE + "idempotent = 1", ".idempotent", "must be true or false"),
    ],
)
def test_a_tool_that_cannot_be_served_is_a_problem(tmp_path: Path, toml: str, key: str, message: str) -> None:
    found = problems(tmp_path, f'{PLAIN}[tools."crm.create_lead"]\n{toml}\n')
    assert list(found) == [f'tools."crm.create_lead"{key}']
    assert found[f'tools."crm.create_lead"{key}'].startswith(message)


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


def test_an_idle_policy_that_would_not_be_kept_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, '[saga]\non_idle = "commit"\n') == {
        "saga.on_idle": '"commit" is not supported by this version yet'
    }


def test_promises_of_the_code_that_would_not_be_kept_are_refused(tmp_path: Path) -> None:
    code = """
from saga_tools import ToolRegistry
registry = ToolRegistry()

@registry.tool(kind="pivot", approval=True, secret=["card"], resource="{card}", on_repeat="refuse")
def pay(card: str) -> None: ...

@registry.tool
def put(name: str) -> None: ...

@registry.undoes(put)
def take(name: str) -> None: ...

@registry.captures(put)
def before(name: str) -> str:
    return name

@registry.invariant
async def rule(results: dict[str, int]) -> None: ...
"""
    path = write(tmp_path, '[python.shop]\npath = "shop.py:registry"\n', shop=code)
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, {})
    assert [str(problem) for problem in caught.value.problems] == [
        "python.shop: invariant `rule` is async; make it a plain function",
        *(
            f"python.shop: {promise} is not supported by this version yet"
            for promise in ["pay: approval", "pay: resource", "pay: secret", 'pay: on_repeat="refuse"', "put: captures"]
        ),
    ]


def test_two_tools_of_one_name_are_a_problem(tmp_path: Path) -> None:
    toml = '[python.a]\npath = "travel.py:registry"\n[python.b]\npath = "travel.py:registry"\n'
    assert problems(tmp_path, toml)["python.b"].startswith("offers `look`, and so does python.a; rename one")


@pytest.mark.parametrize(
    ("text", "where", "line"),
    [
        ("[saga\n", "is not TOML", 1),
        ('[saga]\nname = "a"\nname = "b"\n', "is not TOML", 3),
    ],
)
def test_a_file_that_is_no_toml_says_where(tmp_path: Path, text: str, where: str, line: int) -> None:
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
