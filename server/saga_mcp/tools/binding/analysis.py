"""What an expression names: variables, paths, functions; and what the engine would only notice when it runs.

The engine compiles misspelt names and methods, nested comprehensions and bad patterns without a word (measured), and
its own reference list mixes loop variables with real ones. So names are read from the tokens; that the whole is
well-formed CEL is the engine's parser to say.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from saga_mcp.tools.binding.errors import Fault
from saga_mcp.tools.binding.functions import (
    MACROS,
    NAMESPACES,
    STYLES,
    TAKES_PATTERN,
    TYPES,
    Style,
    takes,
)
from saga_mcp.tools.binding.patterns import BadPattern, check
from saga_mcp.tools.binding.runtime import cel
from saga_mcp.tools.binding.scanner import Token, TokenKind
from saga_mcp.tools.binding.values import Path

_KEYWORDS = frozenset({"true", "false", "null", "in"})
_BEFORE_OPERAND = frozenset({"", "(", "&", "|", "?", ":", ","})
_AFTER_OPERAND = frozenset({"", ")", "&", "|", "?", ":", ","})
_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")
_END = Token(TokenKind.MARK, "", -1)


@dataclass(slots=True)
class Analysis:
    """What one expression names.

    Attributes:
        paths: Of every use of a variable, the longest plain path: where `[expression]`, a method or an operator
            begins it ends.
        searched: Those of which more is asked than whether they equal something, or are one of several.
        functions: Every function and comprehension that is called, by the engine's name.
        whole: The whole expression is this plain path.
        faults: What is wrong, in order of position.
    """

    paths: list[Path] = field(default_factory=list[Path])
    searched: list[Path] = field(default_factory=list[Path])
    functions: set[str] = field(default_factory=set[str])
    whole: Path | None = None
    faults: list[Fault] = field(default_factory=list[Fault])


def analyse(tokens: tuple[Token, ...], variables: frozenset[str]) -> Analysis:
    """Read the names in one expression's tokens (without white space)."""
    return _Reader(tokens, variables).read()


def literal(token: Token) -> object:
    """Return the value of a string or bytes literal, by the engine's own rules; None if it has none."""
    try:
        return cel.compile(token.text).execute()
    except ValueError:
        return None


class _Reader:
    def __init__(self, tokens: tuple[Token, ...], variables: frozenset[str]) -> None:
        self._tokens = tokens
        self._variables = variables
        self._found = Analysis()
        self._depth = 0
        self._loops: list[tuple[int, str]] = []
        """Open comprehensions: the depth inside their parentheses, and their loop variable."""

    def read(self) -> Analysis:
        at = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            if token.kind is TokenKind.NAME and token.text not in _KEYWORDS:
                at = self._name(at)
                continue
            if token.text in _OPEN:
                self._depth += 1
            elif token.text in _CLOSE:
                self._depth -= 1
                if self._loops and self._loops[-1][0] > self._depth:
                    self._loops.pop()
            elif token.text == "." and not self._is_operand(at - 1):
                self._fault(token, "a leading dot is not supported")
            at += 1
        return self._found

    def _name(self, at: int) -> int:
        """Handle the name at `at` and return where to go on."""
        name = self._text(at)
        if self._text(at - 1) == ".":
            if self._text(at + 1) == "(":
                self._call(at, name, Style.METHOD)
            return at + 1
        if self._text(at + 1) == "(":
            self._call(at, name, Style.GLOBAL)
            return at + 1
        if name in NAMESPACES and self._text(at + 1) == "." and self._text(at + 3) == "(":
            self._call(at + 2, f"{name}.{self._text(at + 2)}", Style.GLOBAL)
            return at + 3
        if self._text(at + 1) == "{":
            self._fault(self._tokens[at], "message literals are not supported")
        elif name not in {loop for _, loop in self._loops}:
            return self._variable(at, name)
        return at + 1

    def _variable(self, at: int, name: str) -> int:
        if name not in self._variables:
            if name not in TYPES:
                self._unknown(self._tokens[at], "variable", name, self._variables)
            return at + 1
        path: list[str | int] = [name]
        end = at + 1
        while True:
            if self._text(end) == "." and self._kind(end + 1) is TokenKind.NAME and self._text(end + 2) != "(":
                path.append(self._text(end + 1))
                end += 2
            elif self._text(end) == "[" and self._text(end + 2) == "]" and (key := self._key(end + 1)) is not None:
                path.append(key)
                end += 3
            else:
                break
        self._found.paths.append(tuple(path))
        if not self._is_compared(at, end):
            self._found.searched.append(tuple(path))
        if at == 0 and end == len(self._tokens):
            self._found.whole = tuple(path)
        return end

    def _is_compared(self, at: int, end: int) -> bool:
        """Whether the path from `at` to `end` is one whole side of `==`, or what is looked for by `in`."""
        first = self._text(at - 1) in _BEFORE_OPERAND
        last = self._text(end) in _AFTER_OPERAND
        return (first and (self._text(end) == "in" or self._text(end) == self._text(end + 1) == "=")) or (
            last and self._text(at - 1) == self._text(at - 2) == "="
        )

    def _key(self, at: int) -> str | int | None:
        token = self._tokens[at]
        if token.kind is TokenKind.NUMBER and token.text.isdecimal():
            return int(token.text)
        value = literal(token) if token.kind is TokenKind.STRING else None
        return value if isinstance(value, str) else None

    def _call(self, at: int, name: str, style: Style) -> None:
        token = self._tokens[at]
        known = STYLES.get(name)
        if known is None:
            kind = "method" if style is Style.METHOD else "function"
            self._unknown(token, kind, name, STYLES)
            return
        if style not in known:
            written = f"x.{name}(...)" if style is Style.GLOBAL else f"{name}(x)"
            self._fault(token, f"{name} is written {written}")
            return
        self._found.functions.add(name)
        arguments = self._arguments(at + 1)
        if name in MACROS:
            self._comprehension(at, name, len(arguments))
            return
        count = len(arguments) + (style is Style.METHOD)
        if not takes(name, count):
            self._fault(token, f"{name} does not take {count} arguments")
        place = 1 if style is Style.GLOBAL else 0
        if name in TAKES_PATTERN and place < len(arguments):
            self._pattern(name, arguments[place])

    def _pattern(self, name: str, argument: tuple[Token, ...]) -> None:
        """Compile a pattern that is a constant."""
        if len(argument) != 1 or argument[0].kind is not TokenKind.STRING:
            return
        token = argument[0]
        value = literal(token)
        if not isinstance(value, str):
            self._fault(token, "a pattern is a string")
            return
        try:
            if name == "matches":
                cel.compile(f"''.matches({token.text})").execute()
            else:
                check(value)
        except BadPattern as bad:
            self._fault(token, f"not an RE2 pattern: {bad}")
        except RuntimeError:
            self._fault(token, "not a pattern that matches() accepts")

    def _comprehension(self, at: int, name: str, arguments: int) -> None:
        token = self._tokens[at]
        if arguments not in MACROS[name]:
            self._fault(token, f"{name} takes a name and an expression")
            return
        if self._loops:
            self._fault(token, f"{name} stands inside another comprehension; they do not nest")
        self._loops.append((self._depth + 1, self._text(at + 2)))

    def _arguments(self, opening: int) -> list[tuple[Token, ...]]:
        """Return the tokens of each argument of the call whose parenthesis is at `opening`."""
        arguments: list[list[Token]] = [[]]
        depth = 0
        for token in self._tokens[opening + 1 :]:
            if token.text in _CLOSE and not depth:
                break
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if token.text == "," and not depth:
                arguments.append([])
            else:
                arguments[-1].append(token)
        return [tuple(argument) for argument in arguments if argument]

    def _is_operand(self, at: int) -> bool:
        return self._text(at) in _CLOSE or self._kind(at) in {TokenKind.NAME, TokenKind.STRING, TokenKind.NUMBER}

    def _at(self, at: int) -> Token:
        return self._tokens[at] if 0 <= at < len(self._tokens) else _END

    def _text(self, at: int) -> str:
        return self._at(at).text

    def _kind(self, at: int) -> TokenKind:
        return self._at(at).kind

    def _unknown(self, token: Token, kind: str, name: str, candidates: Iterable[str]) -> None:
        close = difflib.get_close_matches(name, sorted(candidates), n=1)
        self._fault(token, f"unknown {kind} {name}", close[0] if close else None)

    def _fault(self, token: Token, message: str, suggestion: str | None = None) -> None:
        self._found.faults.append(Fault(token.start, message, suggestion))
