"""Reading `saga.toml`: real files, real code."""

import json
import sys
from pathlib import Path

import pytest
from tests.config.written import CREATE, ENV, PLAIN, TRAVEL, problems, read, tools, write

from saga_mcp.config import ConfigMissing, database, find_config, load_config
from saga_mcp.domain.values import Kind, OnError, OnIdle, OnUndoFailure, PartAction, Urgency
from saga_mcp.log.place import FilePlace, ServerPlace
from saga_tools import Retry

NO_FILE = "sslrootcert must name a file that is there, with its whole path"
NAMELESS = "must name a database of its own: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"

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
        idle_end_s = 120
        on_idle = "abort"
        reply_within_s = 5
        probe_for_s = 0
        audit_reads = true
        """,
    )
    settings = loaded.settings
    assert (settings.realm, settings.saga_id_required) == ("ops", True)
    assert (settings.on_error, settings.on_undo_failure) == (OnError.HOLD, OnUndoFailure.CONTINUE)
    assert (settings.reply_within_s, settings.probe_for_s, settings.idle_flag_s) == (5.0, 0.0, 60.0)
    assert (settings.idle_end_s, settings.on_idle, settings.audit_reads) == (120.0, OnIdle.ABORT, True)
    assert loaded.database == FilePlace(tmp_path / "here" / "saga.db")
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
    assert first.database == FilePlace(data_folder / "saga-mcp" / f"{first.settings.realm}.db")
    assert first.database_is_default
    assert load_config(first.path, ENV).settings == first.settings


def test_a_realm_that_is_no_file_name_still_gets_a_file(tmp_path: Path, data_folder: Path) -> None:
    loaded = read(tmp_path, '[saga]\nname = "../Büro & Co"\n')
    assert loaded.database.beside.parent == data_folder / "saga-mcp"
    assert loaded.database.beside.name.startswith("b-ro-co-")


def test_the_environment_and_files_are_filled_in_in_the_database_only(tmp_path: Path) -> None:
    assert read(tmp_path, '[saga]\ndatabase = "sqlite:///${env:LOG}"\n').database == FilePlace(
        tmp_path / "logs" / "saga.db"
    )
    (tmp_path / "place").write_text("other.db\n", encoding="utf-8")
    assert read(tmp_path, '[saga]\ndatabase = "sqlite:///${file:place}"\n').database == FilePlace(tmp_path / "other.db")
    found = problems(tmp_path, PLAIN + CREATE.replace("${result.lead_id}", "${env:LOG}"))
    assert found == {
        'tools."crm.create_lead".undo.args': (
            "${env:...} and ${file:...} are filled in only in saga.database and in [upstreams]"
        )
    }


@pytest.mark.parametrize("name", ["why?", "a%20b", "50%", "a#b"])
def test_the_folder_of_a_database_is_taken_by_its_name_and_nothing_in_it_is_decoded(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    assert read(folder, '[saga]\ndatabase = "sqlite:///a%20b.db"\n').database == FilePlace(folder / "a%20b.db")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+asyncpg://u:secret@h/d", "must be postgresql://..., without the name of a driver"),
        ("postgresql://u:secret@h", NAMELESS),
        ("postgresql://u:secret@h/", NAMELESS),
        (
            "postgresql://u:se:cr@et@h:p/d",
            "cannot be read as a URL: postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for an @ in them",
        ),
        ("postgresql://u:secret@h/d?sslmode=verify-full&sslrootcert=ca.pem", NO_FILE),
        ("postgresql://u:secret@h/d?sslmode=verify-full&sslrootcert=/not/there.pem", NO_FILE),
        ("mysql://u:secret@h/d", "must be sqlite:///FILE or postgresql://..."),
        ("sqlite:///:memory:", "must name a file: the saga log outlives the process"),
        ("sqlite:///a.db?mode=ro", "takes no options, so it cannot hold a `?`; the folder of the config can"),
        ("sqlite:///${env:NOPE}", "the environment has no NOPE"),
        ("sqlite:///${file:nope}", "nope cannot be read: FileNotFoundError"),
        ("sqlite:///${env:}", "${env:} names nothing: say ${env:NAME}"),
        ("sqlite:///${file: }", "${file: } names nothing: say ${file:NAME}"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_problem_and_never_shown(tmp_path: Path, url: str, message: str) -> None:
    assert problems(tmp_path, f'[saga]\ndatabase = "{url}"\n') == {"saga.database": message}


def test_a_database_of_a_server_is_known_without_its_password(tmp_path: Path, data_folder: Path) -> None:
    place = read(tmp_path, '[saga]\ndatabase = "postgresql://me:${env:WORD}@db.lan/ops?sslmode=require"\n').database
    assert isinstance(place, ServerPlace)
    assert place.url == "postgresql://me:s3cret@db.lan/ops?sslmode=require"
    assert place.name == str(place) == "postgresql://db.lan:5432/ops"
    assert place.beside.parent == data_folder / "saga-mcp"
    assert "s3cret" not in repr(place)


def _not_there(_: str) -> None:
    return None


def test_without_the_extra_of_postgresql_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "find_spec", _not_there)
    found = problems(tmp_path, '[saga]\ndatabase = "postgresql://u:secret@h/d"\n')
    assert found == {"saga.database": 'PostgreSQL needs one more package: pip install "saga-mcp[postgres]"'}


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
