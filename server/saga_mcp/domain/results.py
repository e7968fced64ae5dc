"""The last result of each tool of a saga (SEMANTICS.md S9.3): what rules judge, and what undos may look at (S6.1).

Pure, and found without a look at every step (S2.4): the fold keeps what has succeeded, by tool.
"""

from __future__ import annotations

import math

from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import StepState


def last_succeeded(saga: Saga, before: float = math.inf) -> tuple[Step, ...]:
    """Return the last step of each tool that succeeded and is not undone, by order key.

    Args:
        saga: The state.
        before: Of those whose order key is smaller than this `seq`.
    """
    found: list[Step] = []
    for _, numbers in saga.succeeded:
        steps = map(saga.step, reversed(numbers))
        last = next((step for step in steps if step.order < before and step.state is StepState.SUCCEEDED), None)
        if last is not None:
            found.append(last)
    return tuple(sorted(found, key=lambda step: step.order))
