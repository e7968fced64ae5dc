"""`yaml(text)` in expressions: YAML 1.2 as another way of writing JSON, and nothing else (DESIGN.md 5.1, S11.3)."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time

import pytest

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding import CannotBind, compile_template

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web   # of the shop
  labels: {app: web, "tier": 'front'}
spec:
  replicas: 3
  paused: no
  command: [sh, -c, |
    echo hi]
"""


def bind(expression: str, text: str = "") -> JsonValue:
    return compile_template(f"${{{expression}}}", variables=frozenset({"text"})).bind({"text": text})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 2.5, null, ~]\nc:\n", {"a": 1, "b": ["x", 2.5, None, None], "c": None}),
        (
            "[true, True, FALSE, 'true', yes, no, on, off, y]",
            [True, True, False, "true", "yes", "no", "on", "off", "y"],
        ),
        ("[010, 0o17, 0x1F, -3, +4, 1_000, 0b1]", [10, 15, 31, -3, 4, "1_000", "0b1"]),
        ("[1e3, -.5, 1., '1', 1:30, 2026-11-30]", [1000.0, -0.5, 1.0, "1", "1:30", "2026-11-30"]),
        ("on: push\n8080: tcp\ntrue: x\n", {"on": "push", "8080": "tcp", "true": "x"}),
        ("x: |\n  two\n  lines\ny: >-\n  one\n  line\n", {"x": "two\nlines\n", "y": "one line"}),
        ("%YAML 1.2\n---\n- é\n...\n", ["é"]),
        ("&a [1]", [1]),
        ("! 12", "12"),
        ('{"json": ["too", [""]]}', {"json": ["too", [""]]}),
        ("<<: x", {"<<": "x"}),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_yaml_is_read_as_its_core_schema_says(text: str, value: JsonValue) -> None:
    read = bind("yaml(text)", text)
    assert read == value
    assert json.dumps(read, sort_keys=True) == json.dumps(value, sort_keys=True)  # 1 is not true, nor 1.0


def test_what_is_in_it_is_looked_up_as_in_a_result() -> None:
    assert bind("yaml(text).spec.replicas + 1", "spec: {replicas: 3}") == 4
    assert bind("text.yaml().metadata.labels.tier", "metadata:\n  labels: {tier: front}") == "front"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the text holds no document"),
        ("a: [secret", "the text is not YAML"),
        ("a: b: c", "the text is not YAML"),
        ("\tx: 1", "the text is not YAML"),
        ("a\x07", "the text is not YAML"),
        ("--- 1\n--- 2", "the text holds more than one document"),
        ("a: &x [secret]\nb: *x", "the text holds an alias"),
        ("!!python/object/apply:os.system [secret]", "the text holds a tag"),
        ("!!int '4711'", "the text holds a tag"),
        ("a: !secret x", "the text holds a tag"),
        ("a: 1\na: 2", "an object has a key twice"),
        ("? [a]\n: 1", "a key of an object is no text"),
        ("? {a: b}\n: 1", "a key of an object is no text"),
        ("~: 1", "a key of an object is no text"),
        ("x: .nan", "a number that JSON has no word for"),
        ("x: -.inf", "a number that JSON has no word for"),
        ("x: 1e999", "a number that JSON has no word for"),
        ("9223372036854775808", "an integer outside 64 bits"),
        ("1" * 5000, "the text is not YAML"),
        ("%YAML 1.1\n---\nx: yes", "the text says that it is YAML 1.1"),
        ("[" * 65 + "]" * 65, "nested deeper than 64 levels"),
        ("[" + "x," * 40_000 + "]", "the text holds too many values"),
    ],
)
def test_what_is_no_json_value_or_can_be_read_in_two_ways_is_refused(text: str, why: str) -> None:
    with pytest.raises(CannotBind) as refused:
        bind("yaml(text)", text)
    assert why in refused.value.reason
    assert "secret" not in str(refused.value)


def test_sixty_four_levels_are_read() -> None:
    assert bind("size(yaml(text))", "[" * 63 + "[]" + "]" * 63) == 1


@pytest.mark.parametrize(
    "piece", ["[", "{a: ", "- ", "? ", "&a ", "*a ", "!a ", "'", " #", "%a b\n", "a:", "a: b, ", "x,"]
)
def test_a_text_made_to_take_long_does_not(piece: str) -> None:
    """256 kB of it. What is measured is our own time on the processor: others may have the machine."""
    began = time.process_time()
    for before in ("", "["):
        with contextlib.suppress(CannotBind):
            bind("yaml(text)", before + piece * (120_000 // len(piece)) + "!")
    assert time.process_time() - began < 5


def test_the_library_is_loaded_only_where_an_expression_reads_yaml() -> None:
    script = """
import sys
from saga_mcp.tools.binding import compile_template
compile_template("${json(text)}", variables=frozenset({"text"})).bind({"text": "{}"})
compiled = compile_template("${yaml(text)}", variables=frozenset({"text"}))
print("yaml" in sys.modules)
compiled.bind({"text": "{}"})
print("yaml" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]
