"""The command that undoes a committed saga: `revert` (SEMANTICS.md S13).

A person sees first what would be undone, what nobody looks at before, and what stays; then a saga of its own does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import anyio
import typer

from saga_mcp.cli.act import SagaArgument, saga_named
from saga_mcp.cli.drive import Foreseen, Plan, carry_out
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
from saga_mcp.cli.output import Output, count
from saga_mcp.domain.attention import items
from saga_mcp.domain.reverting import Planned, RevertOrder, RevertPlan, Work
from saga_mcp.domain.state import Part, Saga
from saga_mcp.domain.values import JsonObject, PartAction, Phase
from saga_mcp.edge.clean import escape
from saga_mcp.engine.clock import SystemClock
from saga_mcp.engine.engine import Engine
from saga_mcp.engine.reverting import foreseen
from saga_mcp.log.port import SagaLog
from saga_mcp.tools.pair import Pair, PairUnreadable


def revert(  # noqa: PLR0913 - its options
    name: SagaArgument,
    *,
    step: Annotated[int, typer.Option("--step", metavar="N", min=0, help="Only this step.", show_default=False)] = 0,
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    wait: WaitOption = None,
    detach: DetachOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo a committed saga, newest step first, by a saga of its own. What guards see was changed since is kept.

    Shows what would be undone and asks. A saga past its point of no return is undone step by step, with --step.

    Example: saga-mcp revert sg-7k2m... --note "wrong customer"
    """
    require_answerable(yes=yes, as_json=as_json)
    saga_id = saga_named(name)
    who = person(by)
    ground = stand_on(config)
    order = RevertOrder(by=who, reason=note[:200], step=step)
    said: list[str] = []

    async def foresee(log: SagaLog, saga: Saga) -> Foreseen:
        plan = await foreseen(saga, order, log, ground.loaded.settings, SystemClock())
        return await _foreseen(log, saga, plan)

    async def decide(engine: Engine) -> Saga:
        begun = await engine.revert(saga_id, order)
        said.append(f"{saga_id} stays committed and is reverted by {begun.id}.")
        return begun

    plan = Plan(
        saga_id=saga_id,
        question=lambda saga: f"Revert {saga.id}?",
        foresee=foresee,
        decide=decide,
        reached=lambda saga: saga.phase is Phase.COMPENSATED and not any(item.step for item in items(saga)),
        wait_s=wait,
        detach=detach,
        said=said,
    )
    anyio.run(carry_out, ground, plan, yes, as_json)


async def _foreseen(log: SagaLog, saga: Saga, plan: RevertPlan) -> Foreseen:
    lost = [await _not_restored(log, each) for each in plan.steps]
    steps = [_Shown(each, words) for each, words in zip(plan.steps, lost, strict=True)]
    blind = sum(each.blind for each in plan.steps)
    unseen = (
        f" {count(blind, 'step')} without a look at what was changed since: such a change is lost." if blind else ""
    )
    touched = sum(each.work is not Work.STAYS for each in plan.steps)

    def show(output: Output) -> None:
        output.text(f"Revert of {saga.id}, newest step first:")
        residue = any(each.residue for each in steps)
        columns = ("STEP", "TOOL", "UNDO", "BEFORE THAT", *(("STAYS",) if residue else ()))
        output.table(columns, [each.cells()[: len(columns)] for each in steps])
        if plan.stays:
            named = ", ".join(f"{each.step.number} {each.step.tool}" for each in plan.stays)
            output.text(escape(f"Not touched: step {named}."))
        output.text("")

    return Foreseen(
        question=f"Undo {count(touched, 'step')} of {saga.id}?{unseen}",
        show=show,
        json={
            "plan": {
                "saga": saga.id,
                "steps": [each.json() for each in steps],
                "stays": [{"step": each.step.number, "tool": each.step.tool} for each in plan.stays],
            }
        },
    )


async def _not_restored(log: SagaLog, planned: Planned) -> str:
    """What the undo of a step does not bring back, as its pair says."""
    row = await log.pair(planned.step.plan.pair_hash)
    try:
        return "" if row is None else Pair.of_row(row.hash, row.content).not_restored
    except PairUnreadable:
        return ""  # its undo will say so


@dataclass(frozen=True, slots=True)
class _Shown:
    """A step of the plan, as people and programs see it."""

    planned: Planned
    not_restored: str

    @property
    def residue(self) -> tuple[str, ...]:
        return (*self.planned.residue, *((self.not_restored,) if self.not_restored else ()))

    def cells(self) -> tuple[str, ...]:
        step = self.planned.step
        return (str(step.number), step.tool, self._undo(), self._before(), "; ".join(self.residue))

    def json(self) -> JsonObject:
        step = self.planned.step
        return {
            "step": step.number,
            "tool": step.tool,
            "work": self.planned.work.value,
            "unguarded": self.planned.blind,
            "undo": [part.spec.tool or part.spec.action.value for part in step.parts or ()],
            "stays": [*self.residue],
        }

    def _undo(self) -> str:
        if self.planned.work is Work.UNBUILT:
            return f"cannot be built: a person decides {self.planned.step.build_error}".rstrip()
        return ", then ".join(_part(part) for part in self.planned.step.parts or ())

    def _before(self) -> str:
        if self.planned.blind:
            return "nothing is looked at: a later change is lost"
        return "has to be unchanged since" if self.planned.work is Work.UNDONE else ""


def _part(part: Part) -> str:
    match part.spec.action:
        case PartAction.CALL:
            return part.spec.tool
        case PartAction.MANUAL:
            return f"a person: {part.spec.message}"
        case PartAction.LEAVE | PartAction.NOTHING:
            return "left as it is"
