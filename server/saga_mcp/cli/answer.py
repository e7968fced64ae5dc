"""The commands that answer a question: `approve` and `reject` (SEMANTICS.md S9.1).

The person is shown the stored call with its exact arguments, because that, and nothing else, is what is allowed.
"""

from __future__ import annotations

import time

import anyio

from saga_mcp.cli.act import ItemArgument, item_named
from saga_mcp.cli.drive import Plan, carry_out
from saga_mcp.cli.ground import stand_on
from saga_mcp.cli.options import (
    ByOption,
    ConfigOption,
    DetachOption,
    JsonOption,
    NoteOption,
    WaitOption,
    YesOption,
    person,
    require_answerable,
)
from saga_mcp.domain import approvals
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import StepState
from saga_mcp.edge.clean import escape, said_values


def approve(  # noqa: PLR0913 - its options
    name: ItemArgument,
    *,
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    wait: WaitOption = None,
    detach: DetachOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allow a call that an agent asked for: exactly the stored one, once. It is sent at once, without the agent.

    Example: saga-mcp approve sg-7k2m....2 --note "checked with the customer" --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    saga_id, step = item_named(name)
    who = person(by)
    plan = Plan(
        saga_id=saga_id,
        question=lambda saga: f"Allow {_call(saga, step)}, in the name of {who}?",
        decide=lambda engine: engine.decide_item(
            saga_id, lambda saga, _: approvals.approve(saga, step, by=who, note=note, now=time.time())
        ),
        reached=lambda saga: saga.step(step).landed is True,
        wait_s=wait,
        detach=detach,
    )
    anyio.run(carry_out, stand_on(config), plan, yes, as_json)


def reject(
    name: ItemArgument,
    *,
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forbid a call that an agent asked for: it is never sent. The agent is told so, with your note.

    Example: saga-mcp reject sg-7k2m....2 --note "not this customer" --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    saga_id, step = item_named(name)
    who = person(by)
    plan = Plan(
        saga_id=saga_id,
        question=lambda saga: f"Forbid {_call(saga, step)}, in the name of {who}?",
        decide=lambda engine: engine.decide_item(
            saga_id, lambda saga, driving: approvals.reject(saga, step, by=who, note=note, driving=driving)
        ),
        reached=lambda saga: saga.step(step).state is StepState.CANCELLED,
        drives=False,
    )
    anyio.run(carry_out, stand_on(config), plan, yes, as_json)


def _call(saga: Saga, number: int) -> str:
    step = saga.find_step(number)
    if step is None:
        return f"{saga.id}.{number}"
    args = ", ".join(f"{name}={said}" for name, said in said_values(step.plan.args))
    return f"step {number} of {saga.id}, {escape(step.tool)}({args})"
