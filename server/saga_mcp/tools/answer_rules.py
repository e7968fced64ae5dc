"""How the answers of a tool are read, in every role that it plays: as a step, an undo or a read (SEMANTICS.md S4.5).

Below pairs, which keep these rules with every call that they hold, and below the adapters, which read answers by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from saga_mcp.tools.binding import Condition, Template, compile_condition, compile_template
from saga_tools.server import ErrorMeans

ANSWER_VARIABLES: Final = frozenset({"args", "text", "content"})
"""What the expression for a result sees."""
JUDGED_VARIABLES: Final = ANSWER_VARIABLES | {"result"}
"""What conditions on an answer see."""


class CompiledRules(NamedTuple):
    """The expressions of some rules, ready to be evaluated."""

    failed_when: Condition
    no_effect_when: Condition | None
    result: Template | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules:
    """How a tool's answers are read."""

    failed_when: str | bool = False
    no_effect_when: str | bool | None = None
    """Which errors had no effect; None: `error_means` says it of all."""
    error_means: ErrorMeans | None = None
    """None: nobody has said; then each sort of error has a meaning of its own."""
    result: str = ""
    """An expression for the result; empty: structured content, else the JSON of the text, else an empty object."""

    def compiled(self) -> CompiledRules:
        """Compile the expressions.

        Raises:
            TemplateError: one of them does not compile.
        """
        effect = self.no_effect_when
        return CompiledRules(
            failed_when=compile_condition(self.failed_when, variables=JUDGED_VARIABLES),
            no_effect_when=None if effect is None else compile_condition(effect, variables=JUDGED_VARIABLES),
            result=compile_template(self.result, variables=ANSWER_VARIABLES) if self.result else None,
        )
