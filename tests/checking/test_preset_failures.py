"""How the servers of the presets made from schemas say that a call failed, and that each is read as a failure.

The shapes are those of their sources. Where an answer may come after the effect, it proves nothing about it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.checking.test_presets import PRESETS

from saga_mcp.domain.values import Effect
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.presets import Preset, load_preset
from saga_mcp.tools.upstream.answers import Answers

Json = dict[str, Any]


def told(value: Any) -> Json:  # noqa: ANN401 - JSON
    """An ordinary answer whose text is JSON."""
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def said(text: str) -> Json:
    """An answer that its server calls an error."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


FAILURES: dict[str, list[Json]] = {
    "airtable": [said("Airtable API Error: Unprocessable Entity. Response: {}")],
    "asana": [told({"error": "Bad Request"})],
    "atlassian": [
        told({"success": False, "error": "no such page"}),
        told({"error": "Failed to link: 404"}),
        told({"attachment": {"success": False, "error": "too large"}}),
        said("Error calling tool 'create_issue'"),
    ],
    "github": [said("failed to create issue: POST https://api.github.com/repos/a/b/issues: 410")],
    "google-calendar": [said("Not Found"), {**told({"totalCreated": 0, "created": []}), "isError": True}],
    "linear": [told({"success": False}), said("Error: Failed to archive team t")],
    "monday": [said("Failed to execute tool create_item: complexity budget exhausted")],
    "notion": [
        told({"object": "error", "status": 404, "code": "object_not_found", "message": "no"}),
        told({"status": "error", "data": "Bad gateway"}),
    ],
    "playwright": [said("### Error\nTimeoutError: browserType.launch")],
    "slack-archived": [told({"ok": False, "error": "channel_not_found"}), told({"error": "fetch failed"})],
    "stripe": [
        {"content": [{"type": "text", "text": "Failed to create refund"}]},
        told("Failed to create customer"),
    ],
    "todoist": [
        said("HTTP 404: Not Found"),
        told({"completed": [], "failures": [{"item": "1", "error": "no"}], "successCount": 0}),
    ],
    "trello": [said("Error: Request failed with status code 404")],
}
BY_THE_PROTOCOL = {"github-archived"}
"""Their failures are errors of JSON-RPC."""


def answers_of(preset: Preset) -> Answers:
    rules = {key: preset.upstream[key] for key in ("failed_when", "error_means", "result") if key in preset.upstream}
    return Answers.of(AnswerRules(**rules))  # type: ignore[arg-type] # as the preset has it


def test_it_is_known_of_every_server_how_it_says_that_a_call_failed() -> None:
    assert {*FAILURES} | BY_THE_PROTOCOL == {preset.name for preset in PRESETS}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_read_as_one_that_may_have_done_something(name: str) -> None:
    answers = answers_of(load_preset(name))
    assert [answers.read(each, {}).effect for each in FAILURES[name]] == [Effect.UNKNOWN for _ in FAILURES[name]]


@pytest.mark.parametrize("name", sorted(BY_THE_PROTOCOL))
def test_an_error_of_the_protocol_is_read_so_too(name: str) -> None:
    assert answers_of(load_preset(name)).declined(-32603, "Not Found", {}) is Effect.UNKNOWN
