"""One compiled expression: checked at load, evaluated without surprises.

The CEL engine sits behind this file. Its traps, measured on common-expression-language 0.10.0 (cel-rust 0.14.5):
integers outside int64 become doubles, names and methods are only looked up when run, maps lose their order, its
error messages and log lines quote values. Its `matches` runs on the Rust `regex` crate and ours on RE2: both linear.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding.analysis import analyse
from saga_mcp.tools.binding.errors import Fault, Missing, Mistyped, Unfit
from saga_mcp.tools.binding.functions import SEARCHES, Function, implementations, loops
from saga_mcp.tools.binding.runtime import cel
from saga_mcp.tools.binding.scanner import Hole
from saga_mcp.tools.binding.values import Needs, Path, as_json, exact, follow, needs_of, select

# Of the engine's own messages over the config author's text, and ours: no value stands in what these match.
LONGEST = 1000
"""Words and signs of one expression. A longer chain of operators ends the process: the engine walks it recursively
(at 512 kB of stack, which threads have on macOS, more than 1,400 of them do)."""
_SYNTAX_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*?)(?: expecting .*)?$", re.MULTILINE)
_FUNCTION_FAILED = re.compile(r"Function '([^']*)' error: Python function call failed: Unfit: (.*?)\. Check function")

_REASONS: Mapping[type[Exception], tuple[type[Unfit], str]] = {
    KeyError: (Missing, "a member is missing"),
    IndexError: (Unfit, "an index is beyond the end of a list"),
    OverflowError: (Unfit, "a number does not fit into 64 bits"),
    ZeroDivisionError: (Unfit, "division by zero"),
    TypeError: (Mistyped, "an operation does not fit the types of its operands (CEL never converts between them)"),
    ValueError: (Unfit, "an input is not valid Unicode text"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A checked expression.

    Attributes:
        source: What stood between the braces.
        paths: Of every use of a variable, the longest plain path.
        searched: Those of which more is asked than whether they equal something, or are one of several.
        plain: The path, where the whole expression is one; it is then followed in Python and loses nothing.
    """

    source: str
    paths: tuple[Path, ...]
    searched: tuple[Path, ...]
    plain: Path | None
    _needs: Needs
    _program: cel.Program
    _functions: dict[str, Function]
    _loops: bool
    _searches: bool

    def evaluate(self, values: Mapping[str, JsonValue]) -> JsonValue:
        """Return what the expression comes to over `values`.

        Raises:
            Unfit: It has no value here.
        """
        if self.plain is not None:
            return exact(follow(self.plain, values))
        selected = select(self._needs, values, loops=self._loops, searches=self._searches)
        try:
            answer = self._program.execute(cel.Context(selected, self._functions))
        except Exception as error:  # noqa: BLE001 - whatever the engine raises, there is no value (S11.3)
            raise self._unfit(error, selected) from None
        return as_json(answer)

    def _unfit(self, error: Exception, values: Mapping[str, JsonValue]) -> Unfit:
        """Say what went wrong in names only; the engine's own words quote values."""
        for path in self.paths:
            try:
                follow(path, values)
            except Missing as missing:
                if isinstance(error, KeyError) and error.args[0] in path:
                    return missing
            except Unfit as unfit:
                if isinstance(error, TypeError):
                    return unfit
        if failed := _FUNCTION_FAILED.match(str(error)):
            return Unfit(f"{failed[1]}: {failed[2]}")
        of_kind, reason = _REASONS.get(type(error), (Mistyped, "a function does not fit the types of its arguments"))
        return of_kind(reason)


def compile_expression(hole: Hole, variables: frozenset[str]) -> Expression | list[Fault]:
    """Compile one `${...}`, or say everything that is wrong with it."""
    if len(hole.tokens) > LONGEST:
        return [Fault(hole.start, f"is longer than {LONGEST:,} words and signs: say it in parts, or in Python")]
    found = analyse(hole.tokens, variables)
    try:
        program = cel.compile(hole.source)
    except ValueError as error:
        # The parser's complaint comes first: a name may look unknown only because a bracket is missing.
        return [_syntax_fault(hole, str(error)), *found.faults]
    if found.faults:
        return found.faults
    looping = loops(found.functions)
    return Expression(
        source=hole.source,
        paths=tuple(dict.fromkeys(found.paths)),
        searched=tuple(dict.fromkeys(found.searched)),
        plain=found.whole,
        _needs=needs_of(found.paths),
        _program=program,
        _functions=implementations(found.functions, loops=looping),
        _loops=looping,
        _searches=found.functions <= SEARCHES,
    )


def _syntax_fault(hole: Hole, message: str) -> Fault:
    said = _SYNTAX_ERROR.search(message)
    if said is None:
        return Fault(hole.start, "not a CEL expression")
    lines = hole.source.split("\n")[: int(said[1]) - 1]
    return Fault(hole.start + sum(len(line) + 1 for line in lines) + int(said[2]) - 1, f"not CEL: {said[3]}")
