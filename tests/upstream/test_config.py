"""`[upstreams]`: what is declared of them, and everything that is wrong with it at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.config.written import PLAIN, problems, read

from saga_mcp.config import LoadedConfig
from saga_mcp.domain.values import Kind
from saga_mcp.tools.upstream.declared import DeclaredUpstream, Endpoint, Program, offered_name

FS = """
[upstreams.fs]
command = "npx"
args = ["-y", "server-filesystem", "."]
env = { TOKEN = "${env:LOG}" }
read_only = ["read_text_file"]

[tools."fs.write_file"]
undo = { tool = "fs.move_file", args = { source = "${args.path}", destination = "${args.path}.undone" } }
"""


def fs(loaded: LoadedConfig) -> DeclaredUpstream:
    (upstream,) = loaded.upstreams
    return upstream


def test_a_program_runs_where_the_config_is_with_what_the_config_declares(tmp_path: Path) -> None:
    place = fs(read(tmp_path, FS)).place
    assert place == Program(
        command="npx", args=("-y", "server-filesystem", "."), env={"TOKEN": "logs/saga.db"}, cwd=tmp_path
    )
    assert "logs/saga.db" not in repr(place)


def test_a_tool_is_declared_by_its_table_or_in_read_only(tmp_path: Path) -> None:
    tools = {tool.offered: (tool.pair.kind, tool.listed) for tool in fs(read(tmp_path, FS)).tools}
    assert tools == {"fs_write_file": (Kind.COMPENSABLE, True), "fs_read_text_file": (Kind.READ_ONLY, True)}


def test_a_tool_that_is_said_to_change_nothing_has_nothing_that_undoes_it(tmp_path: Path) -> None:
    both = FS.replace('["read_text_file"]', '["read_text_file", "write_file"]')
    assert "upstreams.fs.read_only says that it changes nothing" in str(problems(tmp_path, both))


def test_tools_says_what_agents_are_offered(tmp_path: Path) -> None:
    upstream = fs(read(tmp_path, FS.replace('command = "npx"', 'command = "npx"\ntools = ["write_file"]')))
    assert [tool.tool for tool in upstream.tools if tool.listed] == ["write_file"]


def test_an_undo_may_call_any_tool_of_an_upstream_and_nothing_is_assumed_of_it(tmp_path: Path) -> None:
    upstream = fs(read(tmp_path, FS))
    (write,) = [tool for tool in upstream.tools if tool.tool == "write_file"]
    (entry,) = write.pair.undo
    assert (entry.tool, entry.target_id) == ("fs.move_file", upstream.target_id)
    assert (entry.idempotent, write.pair.safe_if_absent) == (False, False)


def test_a_python_tool_may_be_undone_by_an_upstream(tmp_path: Path) -> None:
    crossed = '[tools."crm.create_lead"]\nundo = { tool = "fs.move_file", idempotent = true, args = { a = "b" } }\n'
    loaded = read(tmp_path, PLAIN + crossed + FS)
    (pair,) = [tool.pair for each in loaded.registries for tool in each.tools if tool.name == "crm.create_lead"]
    (entry,) = pair.undo
    assert (entry.target_id, entry.idempotent, pair.safe_if_absent) == (fs(loaded).target_id, True, False)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (('args = ["-y", ', 'args = ["-x", '), False),
        (('command = "npx"', 'command = "npx"\naccount = "me"'), False),
        (('command = "npx"', 'command = "npx"\ncwd = "elsewhere"'), False),
        (("${env:LOG}", "another"), True),
        (('command = "npx"', 'command = "npx"\nprefix = "f"'), True),
    ],
)
def test_the_target_is_where_it_lives_and_no_secret(tmp_path: Path, change: tuple[str, str], same: bool) -> None:  # noqa: FBT001 - a case
    (tmp_path / "elsewhere").mkdir()
    before = fs(read(tmp_path, FS)).target_id
    assert (fs(read(tmp_path, FS.replace(*change))).target_id == before) is same


def test_a_url_is_shared_and_a_command_is_this_hosts(tmp_path: Path) -> None:
    web = '[upstreams.web]\nurl = "https://example.org/${env:LOG}"\nheaders = { A = "${env:LOG}" }\nread_only = ["a"]\n'
    command, url = read(tmp_path, FS + web).upstreams
    assert (command.scope, url.scope) == ("host", "shared")
    assert url.place == Endpoint(url="https://example.org/logs/saga.db", headers={"A": "logs/saga.db"})
    assert "logs" not in repr(url)


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
[upstreams.both]
command = "a"
url = "b"


[upstreams.down]
url = "localhost:8000/mcp"

[upstreams.odd]
command = "a"
env = { "A=B" = "c" }

[upstreams.cut]
command = "a"
args = ["b\\u0000c"]

[upstreams.missing]
command = "a"
env = { X = "${env:NOPE}" }
headers = { X = "1" }

[upstreams.fs]
command = "a"
cwd = "nowhere"

[upstreams.db]
command = "a"
tools = ["query", "read"]
read_only = ["read"]
failed_when = "${txt.size() > 1}"

[tools."db.write"]
kind = "compensable"

[tools."db.more"]
undo = { tool = "nowhere.x" }
result = "${json(text}"
""",
    )
    assert found == {
        "upstreams.both": "give either command or url",
        "upstreams.down.url": "must be a URL that begins with http:// or https://",
        'upstreams.odd.env."A=B"': "is no name that a variable can have",
        "upstreams.cut.args[0]": "holds the character U+0000, which nothing can be given",
        "upstreams.missing": "headers belong to url",
        "upstreams.missing.env.X": "the environment has no NOPE",
        "upstreams.fs.cwd": f"there is no folder {tmp_path / 'nowhere'}",
        "upstreams.db.tools[0]": 'nothing says what query is: give it [tools."db.query"], or name it in read_only',
        "upstreams.db.failed_when": found["upstreams.db.failed_when"],
        'tools."db.write"': found['tools."db.write"'],
        'tools."db.more".undo.tool': "there is no function nowhere.x",
        'tools."db.more".result': found['tools."db.more".result'],
    }
    assert "txt" in found["upstreams.db.failed_when"]
    assert found['tools."db.write"'].startswith("nothing undoes it")


def test_names_that_clash_are_problems(tmp_path: Path) -> None:
    two = FS + '[upstreams.fs_write]\ncommand = "a"\nprefix = "fs"\nread_only = ["write_file"]\n'
    found = problems(tmp_path, two)
    assert found == {
        "upstreams.fs_write": "offers `fs_write_file` (write_file), and so does fs.write_file; give it another prefix"
    }


def test_a_function_has_no_answers_to_be_read(tmp_path: Path) -> None:
    undo = 'undo = { tool = "crm.delete_lead", args = { lead_id = 1 } }'
    table = f'[tools."crm.create_lead"]\nfailed_when = "${{true}}"\n{undo}\n'
    assert problems(tmp_path, PLAIN + table) == {
        'tools."crm.create_lead".failed_when': "belongs to tools of an upstream: a function raises where it fails"
    }


def test_an_offered_name_suits_every_client_and_says_which_tool_it_is() -> None:
    assert offered_name("fs", "read-text.file") == "fs_read_text_file"
    assert offered_name("", "tool") == "tool"
    one, other = (offered_name("github", "x" * 60 + end) for end in "ab")
    assert len(one) == len(other) == 48
    assert one != other
    assert one == offered_name("github", "x" * 60 + "a")


@pytest.mark.parametrize("text", ["${", "a ${envv:X} b", "${HOME}", "${env:X", "${env:LOG}${"])
def test_what_looks_like_a_reference_and_is_none_is_a_warning(tmp_path: Path, text: str) -> None:
    loaded = read(tmp_path, FS.replace("server-filesystem", text))
    (warning,) = loaded.warnings
    assert warning.key == "upstreams.fs.args[1]"
    assert "is not filled in" in warning.message


def test_a_reference_that_is_filled_in_is_none_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("${x")
    loaded = read(tmp_path, FS.replace("server-filesystem", "${file:secret}"))
    assert not loaded.warnings
