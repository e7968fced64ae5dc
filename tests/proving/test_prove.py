"""`saga-mcp prove`: calls are rehearsed with failures, and what is compared is the world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import anyio
import pytest
from tests.servers.behind import BOUND_S, COMMAND, Behind
from tests.servers.test_check import run
from tests.upstream.desk import Desk

pytestmark = pytest.mark.timeout(2 * BOUND_S)

SAMPLES = """
[[call]]
tool = "ledger.add"
args = { item = "a" }

[[read]]
tool = "ledger.look"
"""
UNDO = '[tools."ledger.add"]\nundo = {{ tool = "ledger.{}", args = {} }}'
GOOD = UNDO.format("remove", '{ id = "${result.id}" }')
IDEMPOTENT = UNDO.format("remove", '{ id = "${result.id}" }, idempotent = true')


@pytest.fixture
def ledger(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "samples.toml").write_text(SAMPLES, encoding="utf-8")
    return desk


async def prove(desk: Desk, *arguments: str, sandbox: str = "ledger") -> tuple[int, Any]:
    samples = ["--samples", str(desk.folder / "samples.toml"), "--sandbox", sandbox]
    command = [str(COMMAND), "prove", "--config", str(desk.config), *samples, "--json", *arguments]
    with anyio.fail_after(BOUND_S):
        done = await anyio.run_process(command, check=False)
    return done.returncode, json.loads(done.stdout)


async def printed(desk: Desk) -> tuple[list[str], str]:
    """What a person sees: the lines that tell of the progress, and the report."""
    samples = ["--samples", str(desk.folder / "samples.toml"), "--sandbox", "ledger"]
    with anyio.fail_after(BOUND_S):
        done = await anyio.run_process([str(COMMAND), "prove", "--config", str(desk.config), *samples], check=False)
    return done.stderr.decode().splitlines(), done.stdout.decode()


def verdicts(found: Any) -> dict[str, tuple[str, bool]]:  # noqa: ANN401 - JSON
    return {each["fault"]: (each["verdict"], each["passed"]) for each in found["rehearsals"]}


async def test_a_pair_that_undoes_restores_the_world_whatever_fails(ledger: Desk) -> None:
    ledger.configure(IDEMPOTENT)
    code, found = await prove(ledger)
    assert verdicts(found) == {
        "none": ("restored", True),
        "before": ("restored", True),
        "undo_before": ("restored", True),
        "undo_lost": ("restored", True),
        "lost": ("person", True),  # nobody can tell its id, and it has no probe
    }
    assert [each["stays"] for each in found["rehearsals"]] == [[], [], [], [], ["ledger.add"]]
    assert code == 0
    added = [line["id"] for line in ledger.lines if line["do"] == "add"]
    removed = [line["id"] for line in ledger.lines if line["do"] == "remove"]
    assert len(added) == 4
    assert sorted({*removed}) == added[:3]
    assert not (ledger.folder / "saga.db").exists()


@pytest.mark.slow
async def test_an_undo_that_only_says_so_is_found_out_by_the_world(ledger: Desk) -> None:
    ledger.configure(UNDO.format("say", '{ text = "undone ${result.id}" }'))
    code, found = await prove(ledger)
    assert (code, verdicts(found)["none"]) == (1, ("broken", False))
    assert found["rehearsals"][0]["saga"] == "compensated: 1 undone, 0 open"
    assert any(line.startswith("+") and '"a"' in line for line in found["rehearsals"][0]["differences"])


@pytest.mark.slow
async def test_a_read_that_does_not_show_the_call_proves_nothing(ledger: Desk) -> None:
    ledger.configure(UNDO.format("say", '{ text = "no undo at all ${result.id}" }'))
    blind = ledger.config.read_text(encoding="utf-8").replace('read_only = ["look"]', 'read_only = ["look", "show"]')
    ledger.config.write_text(blind, encoding="utf-8")
    (ledger.folder / "samples.toml").write_text(SAMPLES.replace("ledger.look", "ledger.show"), encoding="utf-8")
    code, found = await prove(ledger)
    assert (code, verdicts(found)["none"]) == (1, ("unseen", False))


@pytest.mark.slow
async def test_a_call_that_asks_a_person_is_allowed_in_the_rehearsal(ledger: Desk) -> None:
    ledger.configure(UNDO.format("say", '{ text = "no undo at all ${result.id}" }') + "\napproval = true")
    code, found = await prove(ledger)
    assert (code, verdicts(found)["none"]) == (1, ("broken", False))
    assert ledger.called("add") > 0


HALF = UNDO.format("say", '{ text = "undone" }') + '\nnot_restored = "who was told stays told"'


@pytest.mark.slow
async def test_words_of_a_pair_excuse_no_difference(ledger: Desk) -> None:
    ledger.configure(HALF)
    code, found = await prove(ledger)
    assert (code, verdicts(found)["none"]) == (1, ("broken", False))
    assert found["rehearsals"][0]["not_restored"] == "who was told stays told"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("differs", "verdict"),
    [([r'^\+.*"(id|item)": ', r"[{}\[\]]"], "said"), ([r'^\+.*"id": '], "broken"), ([], "broken")],
)
async def test_what_may_differ_is_declared_line_by_line(ledger: Desk, differs: list[str], verdict: str) -> None:
    ledger.configure(HALF)
    declared = SAMPLES.replace("[[read]]", f"differs = {json.dumps(differs)}\n[[read]]")
    (ledger.folder / "samples.toml").write_text(declared, encoding="utf-8")
    _, found = await prove(ledger)
    assert verdicts(found)["none"] == (verdict, verdict == "said")


@pytest.mark.slow
async def test_what_an_undo_only_leaves_and_says_is_no_failure(ledger: Desk) -> None:
    ledger.configure('[tools."ledger.add"]\nundo = { leave = "entry ${args.item}" }')
    code, found = await prove(ledger)
    assert (code, verdicts(found)["none"]) == (0, ("said", True))
    assert "undo_lost" not in verdicts(found)


@pytest.mark.slow
async def test_a_call_that_cannot_be_made_proves_nothing(ledger: Desk) -> None:
    ledger.configure(GOOD)
    (ledger.folder / "samples.toml").write_text(SAMPLES.replace('"a" }', '"a", mode = "fail_before" }'))
    code, found = await prove(ledger)
    assert (code, verdicts(found)["none"]) == (1, ("untried", False))
    assert found["rehearsals"][0]["saga"].startswith("the call of ledger.add itself fails")


@pytest.mark.slow
async def test_a_call_that_fails_over_a_changed_world_is_broken(ledger: Desk) -> None:
    ledger.configure(GOOD + '\nerror_means = "no_effect"')
    (ledger.folder / "samples.toml").write_text(SAMPLES.replace('"a" }', '"a", mode = "fail_after" }'))
    code, found = await prove(ledger)
    assert (code, verdicts(found)["none"]) == (1, ("broken", False))
    assert found["rehearsals"][0]["differences"]


REFUSED = """
"stack.swap" = { capture = { tool = "stack.show", args = {}, max_bytes = 1 }, undo = { tool = "stack.pop", args = {} } }
"""
SWAP = """
def swap(letter: str) -> None:
    FILE.write_text(letter)
"""


async def test_a_call_that_is_refused_was_not_tried_and_what_came_before_it_is_undone(ledger: Desk) -> None:
    ledger.config.write_text(STACKED.replace('"pop"]', '"pop", "swap"]') + REFUSED)
    (ledger.folder / "stack.py").write_text(STACK + SWAP)
    calls = "".join(f'[[call]]\ntool = "stack.{name}"\nargs = {{ letter = "a" }}\n' for name in ("push", "swap"))
    (ledger.folder / "samples.toml").write_text(f'{calls}[[read]]\ntool = "stack.show"\n')
    code, found = await prove(ledger, sandbox="stack")
    swaps = [each for each in found["rehearsals"] if each["tool"] == "stack.swap"]
    assert [(each["fault"], each["step"]) for each in swaps] == [
        ("none", None),
        ("before", None),
        ("undo_before", None),
        ("undo_lost", None),
        ("before", 2),
        ("none", 2),
        ("lost", None),
    ]
    assert {(each["verdict"], each["passed"], *each["differences"]) for each in swaps} == {("untried", False)}
    assert all("Nothing was sent" in each["saga"] for each in swaps)
    assert code == 1


@pytest.mark.slow
async def test_each_rehearsal_that_is_announced_is_in_the_table_or_is_said_to_be_left_out(ledger: Desk) -> None:
    ledger.configure('[tools."ledger.add"]\nundo = { leave = "entry ${args.item}" }')
    told, table = await printed(ledger)
    assert told[2:6] == [
        "ledger.add: the undo fails before it does anything",
        "  left out: its undo calls nothing that could fail",
        "ledger.add: the undo's reply is lost",
        "  left out: its undo calls nothing that could fail",
    ]
    assert len([line for line in told if line.startswith("ledger.add")]) == 5
    assert "\n3 rehearsals, 0 failed" in table


@pytest.mark.slow
async def test_what_is_left_to_a_person_is_said_to_stay_in_the_sandbox(ledger: Desk) -> None:
    ledger.configure(IDEMPOTENT)
    _, table = await printed(ledger)
    assert "Nobody undid these, so they may still be in the sandbox:\n  ledger.add (the call's reply is lost)" in table


@pytest.mark.parametrize("sandbox", ["", "other", "ledger,other"])
async def test_nothing_is_called_unless_the_sandbox_is_named_exactly(ledger: Desk, sandbox: str) -> None:
    ledger.configure(GOOD)
    code, found = await prove(ledger, sandbox=sandbox)
    assert (code, found["error"]["code"], ledger.lines) == (2, "usage", [])
    assert "--sandbox ledger" in found["error"]["message"]


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ("[[call]]\ntool = 1\n[[read]]\ntool = 'ledger.look'", "call.0.tool"),
        (SAMPLES.replace("[[read]]", "differs = ['(']\n[[read]]"), "not a pattern"),
        (SAMPLES.replace("ledger.add", "ledger.ad"), "did you mean ledger.add?"),
        ("read = []\n[[call]]\ntool = 'ledger.add'", "at least one"),
    ],
)
async def test_samples_that_cannot_be_used_say_why(ledger: Desk, samples: str, said: str) -> None:
    ledger.configure(GOOD)
    (ledger.folder / "samples.toml").write_text(samples)
    code, found = await prove(ledger)
    assert (code, said in found["error"]["message"], ledger.lines) == (2, True, [])


@pytest.mark.slow
async def test_a_world_that_only_a_writing_tool_shows_is_not_looked_at(ledger: Desk) -> None:
    ledger.configure(GOOD)
    (ledger.folder / "samples.toml").write_text(SAMPLES.replace("ledger.look", "ledger.say"))
    code, found = await prove(ledger)
    assert (code, found["error"]["code"], ledger.did) == (1, "cannot_rehearse", [])


@pytest.mark.slow
async def test_the_report_of_a_test_runner_counts_the_same(ledger: Desk) -> None:
    ledger.configure(UNDO.format("say", '{ text = "undone" }'))
    report = ledger.folder / "report.xml"
    _, found = await prove(ledger, "--junit", str(report))
    suite = ET.fromstring(report.read_text())  # noqa: S314 - our own
    assert (int(suite.attrib["tests"]), int(suite.attrib["failures"])) == (len(found["rehearsals"]), found["failed"])
    assert len(suite.findall("testcase/failure")) == found["failed"] > 0


@pytest.mark.slow
def test_the_pairs_of_two_real_servers_hold(tmp_path: Path) -> None:
    behind = Behind(tmp_path)
    behind.add_filesystem()
    behind.add_memory()
    file = behind.files / "a.txt"
    file.write_text("old\n")
    (tmp_path / "samples.toml").write_text(
        f"""
[[call]]
tool = "fs.write_file"
args = {{ path = "{file}", content = "new" }}
[[call]]
tool = "memory.create_entities"
args = {{ entities = [{{ name = "A", entityType = "b", observations = ["c"] }}] }}
[[read]]
tool = "fs.read_text_file"
args = {{ path = "{file}" }}
[[read]]
tool = "memory.read_graph"
"""
    )
    code, found = run(behind, "prove", "--samples", "samples.toml", "--sandbox", "fs,memory")
    told = {(each["tool"], each["fault"]): each["verdict"] for each in found["rehearsals"]}
    assert (code, len(told)) == (0, 10)
    assert {verdict for (_, fault), verdict in told.items() if fault != "lost"} == {"restored"}


TOGETHER = """
[[call]]
tool = "ledger.add"
args = { item = "a", id = 11 }
[[call]]
tool = "ledger.add"
args = { item = "b", id = 12 }
[[call]]
tool = "notes.note"
args = { text = "c" }
[[read]]
tool = "ledger.look"
"""


@pytest.mark.slow
async def test_the_calls_are_rehearsed_in_one_saga_too_and_undone_last_first(ledger: Desk) -> None:
    ledger.configure(IDEMPOTENT)
    (ledger.folder / "samples.toml").write_text(TOGETHER)
    code, found = await prove(ledger, sandbox="ledger,notes")
    together = [(each["tool"], each["step"], each["fault"]) for each in found["rehearsals"] if each["step"]]
    add = "ledger.add"
    assert together == [(add, 2, "before"), (add, 2, "none"), ("notes.note", 3, "before"), ("notes.note", 3, "none")]
    assert all(each["verdict"] == "restored" for each in found["rehearsals"] if each["step"])
    unseen = [(each["tool"], each["fault"]) for each in found["rehearsals"] if each["verdict"] == "unseen"]
    assert (code, unseen) == (1, [("notes.note", "none")])  # by itself, it is shown by no read
    pairs = [did for did in ledger.did if did.endswith(("a", "b", "11", "12"))]
    whole = ["add a", "add b", "remove 12", "remove 11"]
    assert "|".join(["add a", "remove 11", *whole, *whole, *whole]) in "|".join(pairs)


STACK = """
from pathlib import Path

FILE = Path(__file__).with_name("stack")

def show() -> dict[str, str]:
    return {"stack": FILE.read_text() if FILE.exists() else ""}

def push(letter: str) -> None:
    FILE.write_text(show()["stack"] + letter)

def pop() -> None:
    if len(show()["stack"]) == 1:
        FILE.write_text("")
"""
STACKED = """
[saga]
name = "stack"
[python.stack]
path = "stack.py"
functions = ["show", "push", "pop"]
[tools]
"stack.show" = { kind = "read_only" }
"stack.push" = { undo = { tool = "stack.pop", args = {} } }
"""


@pytest.mark.slow
async def test_an_undo_that_only_works_alone_is_found_out_in_a_saga(ledger: Desk) -> None:
    ledger.config.write_text(STACKED)
    (ledger.folder / "stack.py").write_text(STACK)
    calls = "".join(f'[[call]]\ntool = "stack.push"\nargs = {{ letter = "{letter}" }}\n' for letter in "ab")
    (ledger.folder / "samples.toml").write_text(f'{calls}[[read]]\ntool = "stack.show"\n')
    code, alone = await prove(ledger, "--singly", sandbox="stack")
    assert (code, {each["verdict"] for each in alone["rehearsals"]}) == (0, {"restored"})
    code, found = await prove(ledger, sandbox="stack")
    broken = [(each["step"], each["fault"]) for each in found["rehearsals"] if each["verdict"] == "broken"]
    assert (code, broken[0]) == (1, (2, "none"))
