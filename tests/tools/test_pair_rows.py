"""Pairs as the log keeps them: what is in a row, and which rows can be read (S6.1)."""

import hashlib
import json
from dataclasses import replace

import pytest

from saga_mcp.domain.values import JsonObject, JsonValue, Kind
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.catalogue import ConfiguredCatalogue, catalogue_of
from saga_mcp.tools.declared import declare
from saga_mcp.tools.pair import Pair, PairUnreadable, UndoEntry
from saga_mcp.tools.python import PythonRegistry, PythonThreads
from saga_mcp.tools.python_undo import ToolAsUndo
from saga_tools import ToolRegistry


def pair(*undo: UndoEntry) -> Pair:
    return Pair(tool="crm.create", kind=Kind.COMPENSABLE, undo=undo)


def delete(**args: JsonValue) -> UndoEntry:
    return UndoEntry(tool="crm.delete", args=args, idempotent=True)


def serve(*registries: tuple[str, ToolRegistry]) -> ConfiguredCatalogue:
    declared = [declare(name, registry) for name, registry in registries]
    threads = PythonThreads()
    return catalogue_of(declared, {each.name: PythonRegistry(each, threads) for each in declared})


def test_a_row_of_an_older_version_is_read_and_one_of_a_newer_version_is_not() -> None:
    """What a version does not understand may be what makes the undo safe."""
    content = pair(delete(id=1)).to_json()
    later = ("host", "capture", "after", "guard", "probe", "resource", "key_arg", "key_format", "force", "rules")
    for name in later:
        del content[name]
    assert Pair.of_row(row_name(content), content) == pair(delete(id=1))
    newer = {**content, "snapshot": "first"}
    with pytest.raises(PairUnreadable, match=r"it does not know snapshot; upgrade it, then retry"):
        Pair.of_row(row_name(newer), newer)
    inside: JsonObject = {**content, "undo": [{"action": "call", "again_when": "${true}"}]}
    with pytest.raises(PairUnreadable, match="it does not know again_when"):
        Pair.of_row(row_name(inside), inside)
    unheard: JsonObject = {**content, "rules": {"failed_when": "${toml(text).failed}"}}
    with pytest.raises(PairUnreadable, match="toml"):
        Pair.of_row(row_name(unheard), unheard)
    with pytest.raises(PairUnreadable, match="was changed in the saga log"):
        Pair.of_row(row_name(content), {**content, "timeout_s": 31.0})
    del content["kind"]
    with pytest.raises(PairUnreadable, match="kind"):
        Pair.of_row(row_name(content), content)


WITHOUT_RULES = (
    "693693bd2a838635a6aff45831490544",
    """{"tool": "ledger.add", "kind": "compensable", "undo": [{"action": "call", "tool": "ledger.remove", "args": {"id":
    "${result.id}"}, "when": true, "each": "", "message": "", "urgency": "normal", "target_id": "t", "outlives_us":
    false, "idempotent": false, "needs_result": false, "timeout_s": 30.0, "retry": {"attempts": 8, "first_delay_s": 1.0,
    "max_delay_s": 300.0}, "read": {"tool": "ledger.look", "args": {"id": "${args.id}"}, "target_id": "t"}, "probe":
    {"call": {"tool": "ledger.look", "args": {"id": "${args.id}"}, "target_id": "t"}, "landed": "${now.result == {}}",
    "result": null}, "done_when": false}], "safe_if_absent": false, "idempotent": false, "has_probe": true, "retry":
    {"attempts": 1, "first_delay_s": 0.5, "max_delay_s": 20.0}, "timeout_s": 30.0, "hard_deadline_s": 300.0, "settle_s":
    5.0, "target_id": "t", "host": "", "outlives_us": false, "not_restored": "", "capture": {"call": {"tool":
    "ledger.look", "args": {"id": "${args.id}"}, "target_id": "t"}, "absent_when": false, "exact_when": true,
    "null_is_absent": false, "max_bytes": 1048576}, "after": null, "guard": {"call": {"tool": "ledger.look", "args":
    {"id": "${args.id}"}, "target_id": "t"}, "as_left": true, "as_before": false, "ignore_order": false}, "probe":
    {"call": {"tool": "ledger.look", "args": {"id": "${args.id}"}, "target_id": "t"}, "landed": true, "result": null},
    "resource": "", "approval": false, "key_arg": "", "key_format": "base32", "force": {}}""",
)
"""A row as it was stored before pairs kept what the tools that they call are, and its name."""


def test_a_row_from_before_pairs_kept_the_rules_of_answers_says_nothing_of_them() -> None:
    name, content = WITHOUT_RULES
    read = Pair.of_row(name, json.loads(content))
    (entry,) = read.undo
    assert entry.read is not None
    assert entry.probe is not None
    assert (read.rules, entry.rules, entry.schema, entry.read.rules, entry.probe.call.rules) == (None,) * 5


def test_a_pair_is_frozen_with_what_the_tools_that_it_calls_are(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot", error_means="no_effect")
    def put() -> None: ...

    catalogue = serve(("box", registry))
    declared = replace(catalogue.offered["put"].pair, undo=(UndoEntry(tool="box.put"), UndoEntry(tool="gone.away")))
    first = catalogue.frozen(declared)
    proves = AnswerRules(error_means="no_effect")
    assert (first.rules, *(entry.rules for entry in first.undo)) == (proves, proves, None)
    assert Pair.of_row(first.hash, json.loads(json.dumps(first.to_json()))) == first
    assert catalogue.frozen(declared) is first
    schema: JsonObject = {"type": "object"}
    monkeypatch.setattr(ToolAsUndo, "schema", schema)
    second = catalogue.frozen(declared)
    assert [entry.schema for entry in second.undo] == [schema, None]
    assert second.hash != first.hash
    for _ in range(100):
        schema = {"not": schema}
    for no_sane_one in (schema, {"default": float("nan")}):
        monkeypatch.setattr(ToolAsUndo, "schema", no_sane_one)
        assert catalogue.frozen(declared).undo[0].schema is None


def row_name(content: JsonObject) -> str:
    """The name under which a version that knew all these keys would have stored them."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def test_a_pair_survives_its_row() -> None:
    registry = ToolRegistry()

    @registry.tool(timeout_s=3)
    def put() -> None: ...

    @registry.undoes(put, needs_result=True)
    def take() -> None: ...

    frozen = serve(("box", registry)).offered["put"].pair
    assert Pair.of_row(frozen.hash, json.loads(json.dumps(frozen.to_json()))) == frozen
    assert (frozen.timeout_s, frozen.hard_deadline_s, frozen.safe_if_absent) == (3.0, 30.0, True)
    assert frozen.undo[0].needs_result
