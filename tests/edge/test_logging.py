"""What stands in a log, and what may never stand there."""

import io
import json
import logging
from typing import Any, cast

import pytest
import structlog

from saga_mcp.edge.logging import configure_logging

SECRET = "hunter2"  # noqa: S105 - the value that must not be found


def refuse(password: str) -> None:
    raise ValueError(f"cannot accept {password}")


def fail() -> None:
    try:
        refuse(SECRET)
    except ValueError as error:
        raise ExceptionGroup(f"refused {SECRET}", [error, KeyError(SECRET)]) from error


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", json.loads(line)) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_object_with_an_iso_time() -> None:
    stream = io.StringIO()
    configure_logging("info", json=True, stream=stream)
    log = structlog.get_logger()
    log.debug("too_fine")
    log.info("step_succeeded", saga_id="sg-1", step=2)
    [event] = events(stream)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "step_succeeded", "level": "info", "saga_id": "sg-1", "step": 2}


def test_stdout_is_never_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", json=False, stream=io.StringIO())
    structlog.get_logger().warning("step_in_doubt")
    logging.getLogger("library").warning("something")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("as_json", [True, False])
def test_an_exception_is_its_types_and_places_without_a_value(*, as_json: bool) -> None:
    stream = io.StringIO()
    configure_logging("info", json=as_json, stream=stream)
    try:
        fail()
    except ExceptionGroup:
        structlog.get_logger().exception("tool_raised")
    written = stream.getvalue()
    assert SECRET not in written
    for kept in ("tool_raised", "ExceptionGroup", "builtins.ValueError", "builtins.KeyError", "in refuse", "in fail"):
        assert kept in written


@pytest.mark.parametrize("as_json", [True, False])
def test_a_library_cannot_quote_a_value_either(*, as_json: bool) -> None:
    stream = io.StringIO()
    configure_logging("debug", json=as_json, stream=stream)
    library = logging.getLogger("some.library")
    library.info("chatter")
    try:
        fail()
    except ExceptionGroup:
        library.exception("call of %r failed\nfuture: <Task exception=%s>", SECRET, SECRET)
    written = stream.getvalue()
    assert SECRET not in written
    assert "chatter" not in written
    for kept in ("library_logged", "some.library", "call of %r failed", "ExceptionGroup"):
        assert kept in written


def test_a_chain_of_exceptions_that_loops_is_told_once() -> None:
    stream = io.StringIO()
    configure_logging("info", json=True, stream=stream)
    first, second = ValueError(), TypeError()
    first.__cause__, second.__cause__ = second, first
    structlog.get_logger().error("looped", exc_info=first)
    assert events(stream)[0]["exception"].split("\n") == ["builtins.ValueError", "builtins.TypeError"]
