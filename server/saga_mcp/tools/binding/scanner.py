"""Tokens of CEL, and where `${...}` begins and ends in a string.

One tokenizer serves both questions, so that what the scanner takes for the end of an expression and what the analysis
takes for a string literal cannot differ. The lexical grammar is that of the `cel` package (measured: `[bB]?[rR]?`
prefixes, `//` comments, no `rb`); whatever it does not know becomes a one-character token and CEL's parser complains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from saga_mcp.tools.binding.errors import Fault


class TokenKind(Enum):
    """What a token is to the analysis."""

    SPACE = auto()
    """White space or a comment."""
    STRING = auto()
    """A complete string or bytes literal."""
    NUMBER = auto()
    NAME = auto()
    MARK = auto()
    """One character of anything else."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of CEL source and its offset in the string that was scanned."""

    kind: TokenKind
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Hole:
    """One `${...}`: the source between the braces, its offset, and its tokens without white space."""

    source: str
    start: int
    tokens: tuple[Token, ...]


# Runs over the config author's own text only, once, at load.
_TOKEN = re.compile(
    r"""
    (?P<SPACE> \s+ | //[^\n]* )
  | (?P<STRING> [bB]?[rR] (?: \"{3} [\s\S]*? \"{3} | '{3} [\s\S]*? '{3} | \"[^\"\n\r]*\" | '[^'\n\r]*' )
              | [bB]? (?: \"{3} (?: \\[\s\S] | [^\\] )*? \"{3} | '{3} (?: \\[\s\S] | [^\\] )*? '{3}
                        | \"(?: \\. | [^\"\\\n\r] )*\" | '(?: \\. | [^'\\\n\r] )*' ) )
  | (?P<NUMBER> 0[xX][0-9a-fA-F]+[uU]? | (?: [0-9]+ (?: \.[0-9]+ )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? [uU]? )
  | (?P<NAME> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<MARK> [\s\S] )
    """,
    re.VERBOSE,
)


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the CEL tokens of `text` from `start` on; never fails."""
    for match in _TOKEN.finditer(text, start):
        yield Token(TokenKind[match.lastgroup or "MARK"], match.group(), match.start())


def split(text: str) -> tuple[list[str | Hole], list[Fault]]:
    """Take a config string apart into literal text and `${...}`.

    `$${` is a literal `${`; a `$` before anything else is itself. Reading goes from left to right, so a dollar sign
    in front of an expression is written `${'$'}${...}`.

    Returns:
        Literal strings (never empty, never two in a row) and holes, in order; and what is wrong.
    """
    parts: list[str | Hole] = []
    literal: list[str] = []
    at = 0
    while True:
        mark = text.find("${", at)
        if mark < 0:
            literal.append(text[at:])
            break
        if text[mark - 1 : mark] == "$" and mark > at:
            literal.append(f"{text[at : mark - 1]}${{")
            at = mark + 2
            continue
        literal.append(text[at:mark])
        hole = _hole(text, mark + 2)
        if isinstance(hole, Fault):
            return [], [hole]
        if before := "".join(literal):
            parts.append(before)
        literal = []
        parts.append(hole)
        at = hole.start + len(hole.source) + 1
    if rest := "".join(literal):
        parts.append(rest)
    empty = [Fault(p.start, "${} is empty") for p in parts if isinstance(p, Hole) and not p.tokens]
    return parts, empty


def _hole(text: str, start: int) -> Hole | Fault:
    depth = 0
    seen: list[Token] = []
    for token in tokens(text, start):
        if token.kind is TokenKind.SPACE:
            continue
        if token.kind is TokenKind.MARK:
            if token.text in "\"'":
                return Fault(token.start, "a string literal is not closed")
            if token.text == "}" and not depth:
                return Hole(text[start : token.start], start, tuple(seen))
            depth += {"{": 1, "}": -1}.get(token.text, 0)
        seen.append(token)
    return Fault(start - 2, "${ is not closed; write $${ for a literal ${")
