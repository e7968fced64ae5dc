"""A step is undone only where it was done (SEMANTICS.md S1.2, S1.3): not in another folder, nor of another account."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.upstream.desk import PAIRED, Desk

from saga_mcp import app
from saga_mcp.config import places
from saga_mcp.config.findings import Findings
from saga_mcp.domain.hosts import host_key, host_name

AT = 'env = { LEDGER = "ledger.jsonl" }'


def configure(desk: Desk, upstream: str) -> None:
    """Put `upstream` in place of the line that says where the ledger is."""
    desk.configure(PAIRED)
    written = desk.config.read_text(encoding="utf-8")
    assert AT in written
    desk.config.write_text(written.replace(AT, upstream), encoding="utf-8")


def removals(desk: Desk) -> int:
    """How many undos have arrived, anywhere."""
    return sum(file.read_text(encoding="utf-8").count('"tool": "remove"') for file in desk.folder.rglob("*.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('env = { LEDGER = "${env:HERE}" }', 'env = { LEDGER = "${env:THERE}" }', id="another-file"),
        pytest.param(f'{AT}\ncwd = "here"', f'{AT}\ncwd = "there"', id="another-folder"),
        pytest.param(f'{AT}\naccount = "me"', f'{AT}\naccount = "you"', id="another-account"),
        pytest.param(f'{AT}\naccount = "${{env:ME}}"', f'{AT}\naccount = "${{env:YOU}}"', id="an-account-filled-in"),
        pytest.param(f'{AT}\nscope = "host"', f'{AT}\nscope = "shared"', id="another-scope"),
        pytest.param('env = { LEDGER = "ledger.jsonl", X = "/a" }', 'env = { LEDGER = "ledger.jsonl", X = "/b" }'),
    ],
)
async def test_a_step_is_not_undone_in_another_place_and_is_once_it_is_put_back(
    desk: Desk, before: str, after: str
) -> None:
    for folder in ("here", "there"):
        (desk.folder / folder).mkdir()
    env = {
        "HERE": str(desk.folder / "here/a.jsonl"),
        "THERE": str(desk.folder / "there/a.jsonl"),
        "ME": "i",
        "YOU": "u",
    }
    configure(desk, before)
    async with desk.serve(**env) as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a")
        saga_id = added.facts["id"]
    configure(desk, after)
    async with desk.serve(**env) as agent:
        await agent.until_up()
        await agent.call("saga_abort", saga_id=saga_id)
        status = await agent.until(saga_id, "needs_attention")
    assert removals(desk) == 0
    assert status["items"][0]["kind"] == "target_changed"
    configure(desk, before)
    async with desk.serve(**env) as agent:
        await agent.until_up()
        code, said = await desk.run("retry", f"{saga_id}.1", "--yes", "--note", "put back", **env)
        assert code == 0, said
        await agent.until(saga_id, "compensated")
    assert removals(desk) == 1


def targets(folder: Path, upstream: str, **env: str) -> str:
    """The target of an upstream."""
    config = folder / "saga.toml"
    config.write_text(f"[saga]\nname = 'a'\n[upstreams.x]\nread_only = ['r']\n{upstream}\n", encoding="utf-8")
    (only,) = app.load(config, environ={"HOME": str(folder), **env}).upstreams
    return only.target_id


@pytest.mark.parametrize(
    ("upstream", "one", "other", "same"),
    [
        ('command = "c"\nargs = ["${env:X}"]', "/root/a", "/root/b", False),
        ('command = "c"\nargs = ["${env:X}"]', "token-1", "token-2", True),
        ('command = "c"\nenv = { A = "${env:X}" }', "token-1", "token-2", True),
        ('command = "c"\nenv = { A = "${env:X}" }', "postgresql://u:p@h/db", "postgresql://u:q@h/db", True),
        ('command = "c"\nenv = { A = "${env:X}" }', "postgresql://u:p@h/db", "postgresql://u:p@h/live", False),
        ('command = "c"\nenv = { PATH = "${env:X}" }', "/bin", "/opt/bin", True),
        ('url = "${env:X}"', "https://a.org/s/token-1", "https://a.org/s/token-2", True),
        ('url = "${env:X}"', "https://a.org/mcp", "https://b.org/mcp", False),
        ('url = "https://a.org/${env:X}"', "token-1", "token-2", True),
        ('url = "https://${env:X}/"', "a.org", "[", False),
    ],
)
def test_what_is_filled_in_counts_where_it_is_a_place_and_not_where_it_may_be_a_secret(
    tmp_path: Path, upstream: str, one: str, other: str, *, same: bool
) -> None:
    assert (targets(tmp_path, upstream, X=one) == targets(tmp_path, upstream, X=other)) is same


def test_another_machine_is_another_place_for_what_is_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A realm's log may lie on a network drive, or in a folder that is synchronised."""

    def on(machine: str) -> tuple[str, str]:
        file = tmp_path / "machine-id"
        file.write_text(machine, encoding="utf-8")
        monkeypatch.setattr(places, "_MACHINE", file if machine else tmp_path / "missing")
        return targets(tmp_path, 'command = "c"'), targets(tmp_path, 'url = "https://a.org"')

    here, there, nowhere = on("abc\n"), on("def\n"), on("")
    assert len({here[0], there[0], nowhere[0]}) == 3
    assert here[1] == there[1] == nowhere[1]


def test_containers_without_an_id_are_never_taken_for_one_machine_where_they_share_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one did in its own file system would be "undone" in that of another, and stand."""
    monkeypatch.setattr(places, "_MACHINE", tmp_path / "missing")

    def named(name: str, *, one_of_many: bool, **environ: str) -> str:
        monkeypatch.setattr(socket, "gethostname", lambda: name)
        found = Findings({})
        host = places.this_host(environ, found, one_of_many=one_of_many)
        assert not found.problems
        assert places.is_known_by_name_only(host) is (one_of_many and not environ)
        return host

    one, another = named("3f2a", one_of_many=True), named("9c1d", one_of_many=True)
    assert host_name(one) == "3f2a"
    assert host_key(one) != host_key(another)
    assert named("3f2a", one_of_many=True) == one
    assert named("9c1d", one_of_many=True, SAGA_MCP_HOST="3f2a") == "3f2a"
    assert named("3f2a", one_of_many=False) == ""  # one file is of one machine, whatever that is called today
