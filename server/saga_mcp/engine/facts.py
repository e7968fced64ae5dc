"""What a step's pair may look at, as the log has it."""

from __future__ import annotations

from collections.abc import Callable

from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonValue
from saga_mcp.engine.results import ResultsThen
from saga_mcp.tools.hidden import written_key
from saga_mcp.tools.pair import KeyFormat
from saga_mcp.tools.port import Catalogue, StepFacts


def facts_of(
    saga: Saga,
    step: Step,
    form: KeyFormat,
    offered: Callable[[str], str],
    *,
    result: JsonValue = None,
    known: bool = False,
    text: str | None = None,
) -> StepFacts:
    """The facts of a step, with the result that is given.

    Args:
        saga: in which it is now; one that is reverted was done in another.
        step: whose.
        form: how its key is written.
        offered: tells the name under which agents see a tool, by its name in the config.
        result: what it returned.
        known: whether that is so.
        text: what the call itself answered; None where somebody else says what it did.
    """
    done_in, number = saga.origin(step.number)
    return StepFacts(
        saga_id=done_in,
        tool=step.tool,
        number=number,
        key=written_key(saga.key_of(step.number), form),
        args=step.plan.args,
        sealed=frozenset(step.plan.sealed),
        result=result,
        known=known,
        text=text,
        capture=step.capture,
        image=step.image,
        after=step.after,
        results=ResultsThen(saga, step, offered),
    )


def stored_facts_of(saga: Saga, step: Step, form: KeyFormat, offered: Callable[[str], str]) -> StepFacts:
    """The facts with the result as the log holds it; a person may have seen the effect and not its result."""
    known = step.landed is True and step.result is not None
    return facts_of(saga, step, form, offered, result=step.result, known=known)


def offered_as(catalogue: Catalogue, tool: str) -> str:
    """The name under which agents see a tool, by its name in the config."""
    found = catalogue.tool(tool)
    return tool.rpartition(".")[2] if found is None else found.offered
