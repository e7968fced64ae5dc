"""What a config can say about reads: captures, guards, probes, cases, forced arguments and keys (DESIGN.md 5.1)."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import UUID

import pytest

from saga_mcp.testing import CallFailed, Harness


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).with_name("desk.py"), tmp_path)
    shutil.copy(Path(__file__).with_name("desk.toml"), tmp_path / "saga.toml")
    return tmp_path


@pytest.fixture
async def h(folder: Path) -> AsyncGenerator[Harness]:
    async with Harness(folder / "saga.toml") as harness:
        yield harness


def journal(folder: Path) -> list[str]:
    """What was done, reads aside."""
    lines = (folder / "journal").read_text().splitlines() if (folder / "journal").exists() else []
    return [line for line in lines if not line.startswith("read")]


@pytest.mark.parametrize("before", ["old", "caf\u00e9 \u2028 \U0001f600", "x" * 900_000])
async def test_a_text_is_put_back(h: Harness, folder: Path, before: str) -> None:
    (folder / "a").write_text(before)
    saga = h.saga()
    await saga.call("write_text", path="a", content="new")
    await saga.abort()
    assert (folder / "a").read_text() == before
    assert saga.state == "compensated"


@pytest.mark.parametrize("letter", ["a", "\n", "\u0436", "\u20ac", "\U0001f600"])
async def test_the_most_that_is_kept_is_counted_in_bytes_of_utf_8(h: Harness, folder: Path, letter: str) -> None:
    around, each = len("content"), len(letter.encode())
    fits = "x" * ((2**20 - around) % each) + letter * ((2**20 - around) // each)
    (folder / "a").write_text(fits, encoding="utf-8")
    (folder / "b").write_text(f"{fits}{letter}", encoding="utf-8")
    saga = h.saga()
    with pytest.raises(CallFailed, match=f"takes {2**20 + each} bytes, more than {2**20}"):
        await saga.call("write_text", path="b", content="new")
    await saga.call("write_text", path="a", content="new")
    await saga.abort()
    assert (folder / "a").read_text(encoding="utf-8") == fits
    assert journal(folder) == ["write a", "write a"]


@pytest.mark.parametrize(
    "absent_when",
    [
        "now.text.contains('FileNotFoundError')",
        "now.text != '' && 'FileNotFoundError' in [now.text.trim()]",
        "[now.text].exists(line, line.contains('FileNotFoundError'))",
        "now.error.contains('FileNotFoundError')",
    ],
)
@pytest.mark.parametrize("before", ["the log: FileNotFoundError", "FileNotFoundError"])
async def test_a_text_that_reads_like_an_error_is_there_and_is_put_back(
    folder: Path, absent_when: str, before: str
) -> None:
    config = folder / "saga.toml"
    config.write_text(
        config.read_text().replace("now.text.contains('FileNotFoundError')", absent_when.replace('"', '\\"'))
    )
    (folder / "a").write_text(before)
    async with Harness(config) as h:
        saga = h.saga()
        await saga.call("write_text", path="a", content="new")
        await saga.abort()
        assert (saga.state, (folder / "a").read_text()) == ("compensated", before)


@pytest.mark.parametrize(
    "absent_when",
    [
        """now.text == '{"content": "nothing"}'""",
        """'{"content": "nothing"}' == now.text""",
        "now.result.content == 'nothing'",
    ],
)
async def test_a_server_that_answers_that_nothing_is_there_is_believed_by_its_whole_answer(
    folder: Path, absent_when: str
) -> None:
    config = folder / "saga.toml"
    config.write_text(
        config.read_text().replace("now.text.contains('FileNotFoundError')", absent_when.replace('"', '\\"'))
    )
    desk = folder / "desk.py"
    desk.write_text(
        desk.read_text().replace(
            'return {"content": (HERE / path)',
            'if not (HERE / path).exists():\n        return RETURNED\n    return {"content": (HERE / path)',
        )
        + 'RETURNED = {"content": "nothing"}\n'
    )
    async with Harness(config) as h:
        saga = h.saga()
        await saga.call("write_text", path="a", content="new")
        await saga.abort()
        assert (saga.state, (folder / "a").exists()) == ("compensated", False)


async def test_what_was_not_there_is_deleted(h: Harness, folder: Path) -> None:
    saga = h.saga()
    await saga.call("write_text", path="a", content="new")
    await saga.abort()
    assert not (folder / "a").exists()
    assert journal(folder) == ["write a", "delete a"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (2**20 + 1)], ids=["no UTF-8", "too large"])
async def test_what_cannot_be_kept_exactly_is_not_touched(h: Harness, folder: Path, content: bytes) -> None:
    (folder / "a").write_bytes(content)
    saga = h.saga()
    with pytest.raises(CallFailed) as refused:
        await saga.call("write_text", path="a", content="new")
    assert refused.value.code == "capture_failed"
    assert (folder / "a").read_bytes() == content


@pytest.mark.parametrize("before", ["old", None])
@pytest.mark.parametrize("written", ["x" * 5_000_000, "\ufffd"], ids=["too large to be kept", "as if it were no UTF-8"])
async def test_what_a_step_wrote_need_not_be_kept_to_be_undone(
    h: Harness, folder: Path, before: str | None, written: str
) -> None:
    if before is not None:
        (folder / "a").write_text(before)
    saga = h.saga()
    await saga.call("write_text", path="a", content=written)
    await saga.abort()
    assert saga.state == "compensated"
    assert ((folder / "a").read_text() if (folder / "a").exists() else None) == before


async def test_what_a_person_wrote_over_something_large_is_not_overwritten(h: Harness, folder: Path) -> None:
    (folder / "a").write_text("old")
    saga = h.saga()
    await saga.call("write_text", path="a", content="x" * 5_000_000)
    (folder / "a").write_text("x" * 5_000_000 + "!")
    await saga.abort()
    assert (saga.state, (folder / "a").read_text()[-1]) == ("needs_attention", "!")


async def test_what_no_undo_would_bring_back_is_not_changed(folder: Path) -> None:
    config = folder / "saga.toml"
    config.write_text(config.read_text().replace('when = "${!capture.found}"', 'when = "${capture.found}"'))
    async with Harness(config) as h:
        with pytest.raises(CallFailed, match="no undo entry applies") as refused:
            await h.saga().call("write_text", path="a", content="new")
    assert refused.value.code == "capture_failed"
    assert not (folder / "a").exists()


async def test_an_undo_reads_what_it_needs_right_before_it_is_sent_and_forced_arguments_are_not_the_agents(
    h: Harness, folder: Path
) -> None:
    saga = h.saga()
    await saga.call("move", key="X-1", transition="31")
    with pytest.raises(CallFailed, match="unknown argument notify"):
        await saga.call("move", key="X-1", transition="31", notify=True)
    await saga.abort()
    assert journal(folder) == ["move X-1 31 notify=False", "move X-1 11 notify=False"]


async def test_the_key_of_a_step_is_sent_where_its_tool_has_a_place_for_it(h: Harness, folder: Path) -> None:
    saga = h.saga()
    done = await saga.call("act", method="make", name="x")
    assert str(UUID(done["id"])) == done["id"]
    await saga.abort()
    assert journal(folder) == [f"make x {done['id']}", f"take back {done['id']}"]


async def test_a_lost_answer_is_found_by_the_key_and_undone_with_the_result_that_the_probe_knows(
    h: Harness, folder: Path
) -> None:
    saga = h.saga()
    with pytest.raises(CallFailed) as lost:
        await saga.call("act", method="lost", name="x")
    assert lost.value.code == "outcome_unknown"
    await saga.rest()
    assert saga.steps == [("act", "succeeded")]
    await saga.abort()
    assert [line.split()[0] for line in journal(folder)] == ["lost", "take"]
    assert json.loads((folder / "acts.json").read_text()) == {}


async def test_what_the_probe_does_not_find_did_not_happen(h: Harness, folder: Path) -> None:
    saga = h.saga()
    with pytest.raises(CallFailed):
        await saga.call("act", method="lose", name="x")
    await saga.rest()
    assert (saga.state, saga.steps) == ("compensated", [("act", "failed")])
    assert [line.split()[0] for line in journal(folder)] == ["lose"]


async def test_a_call_of_no_case_is_refused(h: Harness, folder: Path) -> None:
    with pytest.raises(CallFailed) as refused:
        await h.saga().call("act", method="burn", name="x")
    assert "nothing says how a call with these arguments could be undone" in str(refused.value)
    assert journal(folder) == []


async def test_what_is_undone_already_is_no_dead_letter(h: Harness, folder: Path) -> None:
    saga = h.saga()
    await saga.call("act", method="make", name="x")
    (folder / "acts.json").write_text(json.dumps({}))
    await saga.abort()
    assert saga.state == "compensated"


async def test_a_call_whose_undo_could_never_be_built_from_what_was_captured_is_refused(
    h: Harness, folder: Path
) -> None:
    (folder / "a").write_text("old")
    with pytest.raises(CallFailed) as refused:
        await h.saga().call("rewrite", path="a")
    assert refused.value.code == "capture_failed"
    assert "capture.result.contents is missing" in str(refused.value)
    assert journal(folder) == []


@pytest.mark.parametrize(
    ("between", "state", "left"),
    [
        (["new", "b", "a"], "compensated", ["b", "a"]),
        (["a", "b"], "compensated", ["a", "b"]),
        (["b", "a", "new", "more"], "needs_attention", ["b", "a", "new", "more"]),
    ],
    ids=["as it was left", "as it was before", "neither"],
)
async def test_a_guard_may_ignore_the_order_of_lists(
    h: Harness, folder: Path, between: list[str], state: str, left: list[str]
) -> None:
    (folder / "x.tags").write_text(json.dumps(["b", "a"]))
    saga = h.saga()
    await saga.call("tag", name="x", add="new")
    (folder / "x.tags").write_text(json.dumps(between))
    await saga.abort()
    assert (saga.state, json.loads((folder / "x.tags").read_text())) == (state, left)


async def test_an_undo_may_need_what_only_a_read_after_the_call_tells_and_is_asked_about_when_its_answer_is_lost(
    h: Harness, folder: Path
) -> None:
    saga = h.saga()
    await saga.call("number", name="x")
    await saga.call("number", name="y")
    await saga.abort()
    assert journal(folder) == ["number x", "number y", "free 2", "free 1"]
    assert saga.state == "compensated"


async def test_a_guard_of_its_own_leaves_alone_what_is_somebody_elses_by_now(h: Harness, folder: Path) -> None:
    saga = h.saga()
    await saga.call("number", name="x")
    (folder / "numbers.json").write_text(json.dumps({"x": "77"}))
    await saga.abort()
    assert journal(folder) == ["number x"]
    assert [item.kind for item in saga.items] == ["guard_conflict"]
