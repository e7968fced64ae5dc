"""Logs go to stderr, as events, and never carry a value a caller passed.

At the edge because stderr is the edge: on stdio, stdout is the wire, and structlog's default printer writes there.
Messages of exceptions are left out as well as local variables, since both quote arguments (pydantic and most tools put
the refused value into the text). What is left of an exception is its type and where it was raised.
"""

import logging
import traceback
from collections.abc import Iterator
from typing import Literal, TextIO, cast

import structlog
from structlog.typing import ExcInfo

LogLevel = Literal["debug", "info", "warning", "error"]

_FRAMES = 20
"""How many of the innermost frames of a traceback are kept."""


def configure_logging(level: LogLevel, *, json: bool, stream: TextIO) -> None:
    """Send every log event of this process to `stream` from now on.

    Args:
        level: the least severe level that is written.
        json: one JSON object a line instead of text for people.
        stream: the real stderr.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    renderer = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(
            colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(_where_it_was_raised),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    # Libraries know only the standard logging; below warning they would drown, and quote, everything.
    logging.basicConfig(level=max(threshold, logging.WARNING), handlers=[_LibraryLogs()], force=True)


class _LibraryLogs(logging.Handler):
    """Turns a library's record into one of our events: its template's first line, without the arguments.

    Later lines are left out because asyncio puts the `repr` of whole tasks, exceptions included, there.
    """

    def emit(self, record: logging.LogRecord) -> None:
        template = str(record.msg).partition("\n")[0]
        structlog.get_logger(record.name).log(
            record.levelno, "library_logged", logger=record.name, template=template, exc_info=record.exc_info
        )


def _where_it_was_raised(exc_info: ExcInfo) -> str:
    return "\n".join(_described(exc_info[1], seen=set()))


def _described(error: BaseException, *, seen: set[int]) -> Iterator[str]:
    """Yield the type and frames of `error`, then of what caused it and of what a group holds."""
    seen.add(id(error))
    yield f"{type(error).__module__}.{type(error).__qualname__}"
    for frame in traceback.extract_tb(error.__traceback__)[-_FRAMES:]:
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    parts = cast("BaseExceptionGroup[BaseException]", error).exceptions if isinstance(error, BaseExceptionGroup) else ()
    for part in (cause, *parts):
        if part is not None and id(part) not in seen:  # a chain may loop
            yield from _described(part, seen=seen)
