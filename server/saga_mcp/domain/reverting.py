"""Decisions on a revert: undo after the commit (SEMANTICS.md S13). Pure.

A revert is a saga of its own. It takes over the steps of the committed one, with everything their undos need as it was
frozen there, and is aborted in the same append: so there is one way in which undos run, stop and are resumed, whoever
asked for them. The committed saga only notes who has its steps; that note is what two reverts compete for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from saga_mcp.domain.attention import items, reverted_words
from saga_mcp.domain.draft import Draft, Driving, whole
from saga_mcp.domain.errors import RevertRefused, SagaNotFound
from saga_mcp.domain.events import Event, SagaOpened, SagaReverted, StepAdopted
from saga_mcp.domain.on_saga import revertible
from saga_mcp.domain.results import last_succeeded
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import JsonObject, Kind, OnUndoFailure, PartAction, Phase, StepState

_DAY_S = 86400.0
_LONGEST_PURPOSE = 200
"""Characters, as of every label (S11.6)."""


class Work(StrEnum):
    """What a revert does about a step."""

    UNDONE = "undone"
    PERSON = "person"
    """A person has to undo it, or some of it."""
    UNBUILT = "unbuilt"
    """Its undo could not be built: a person decides."""
    STAYS = "stays"
    """It is left as it is: as configured, or because it has no undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A step of the saga that is reverted, and what becomes of it."""

    step: Step
    work: Work
    blind: bool = False
    """Some of its undo is sent without a look at what was changed since."""
    residue: tuple[str, ...] = ()
    """What stays by decision of the config, also of a step that is undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertPlan:
    """What a revert would do."""

    steps: tuple[Planned, ...]
    """The steps that it takes over, newest first."""
    stays: tuple[Planned, ...] = ()
    """What has no undo, or is not asked for, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertOrder:
    """What is to be reverted, and who asks for it."""

    by: str
    reason: str = ""
    step: int = 0
    """Only this step; 0: all that can be undone."""
    agent: bool = False
    """The agent asks: only what is guarded is undone for it, and nothing past a point of no return."""
    age_s: float = 0.0
    """How long ago the saga was committed, by the wall clock."""
    window_s: float = 0.0
    """For how long after that it can be reverted; 0: not at all."""
    revert: str = ""
    """Id of the saga that is to be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverting:
    """What a revert appends to both sagas, at once."""

    noted: tuple[Event, ...]
    """To the committed one."""
    opened: Saga
    """The one that undoes its steps."""
    events: tuple[Event, ...]
    """By which that one is opened."""


def plan_revert(saga: Saga, order: RevertOrder) -> RevertPlan:
    """What would be undone, or why nothing is.

    Raises:
        SagaNotFound: the log does not hold it.
        RevertRefused: it cannot be reverted, or not so; nothing was changed.
    """
    if not saga.opened:
        raise SagaNotFound(saga.id)
    _require_committed(saga)
    _require_in_time(saga, order)
    if waiting := [item.name for item in items(saga) if item.step]:
        names = ", ".join(waiting)
        raise RevertRefused(saga.id, f"{names} waits for a person: settle that first (`saga-mcp attention`)")
    stand = [step for step in saga.steps if step.state is StepState.SUCCEEDED]
    newest_first = sorted(stand, key=lambda step: step.order, reverse=True)
    possible = [step for step in newest_first if revertible(saga, step)]
    _require_order(saga, order, possible)
    chosen = [step for step in possible if order.step in {0, step.number}]
    others = [step for step in newest_first if step.kind is not Kind.COMPENSABLE or step in possible]
    plan = RevertPlan(
        steps=tuple(planned(step) for step in chosen),
        stays=tuple(Planned(step=step, work=Work.STAYS) for step in others if step not in chosen),
    )
    if all(each.work is Work.STAYS for each in plan.steps):
        raise RevertRefused(saga.id, _nothing_left(saga))
    if order.agent:
        _require_guards(saga, plan)
    return plan


def _require_committed(saga: Saga) -> None:
    match saga.phase:
        case Phase.COMMITTED:
            if saga.wiped:
                raise RevertRefused(saga.id, "its values were wiped, and its undos cannot be called without them")
        case Phase.ACTIVE:
            raise RevertRefused(saga.id, "it is not committed: saga_abort undoes it")
        case Phase.COMPENSATING | Phase.COMPENSATED:
            raise RevertRefused(saga.id, "it was not kept: its steps are undone or being undone")


def _require_in_time(saga: Saga, order: RevertOrder) -> None:
    if not order.window_s:
        raise RevertRefused(saga.id, "reverting is switched off here (revert_window_s = 0)")
    if order.age_s > order.window_s:
        ago, window = (f"{seconds / _DAY_S:.3g} days" for seconds in (order.age_s, order.window_s))
        raise RevertRefused(saga.id, f"it was committed {ago} ago, and only {window} are allowed (revert_window_s)")


def _require_order(saga: Saga, order: RevertOrder, possible: list[Step]) -> None:
    """Refuse what asks for the wrong steps."""
    numbers = [step.number for step in possible]
    if not numbers:
        raise RevertRefused(saga.id, _nothing_left(saga))
    if order.step and order.step not in numbers:
        listed = ", ".join(map(str, numbers))
        raise RevertRefused(saga.id, f"step {order.step} is none that can be undone; these can: {listed}")
    if saga.pivot_passed and not order.step:
        pivot = saga.step(saga.pivot).tool
        command = f"`saga-mcp revert {saga.id} --step {numbers[0]}`"
        who = f"ask the operator: {command}" if order.agent else f"a person undoes it step by step: {command}"
        raise RevertRefused(saga.id, f"{pivot} passed the point of no return; {who}")


def _require_guards(saga: Saga, plan: RevertPlan) -> None:
    others = [each for each in plan.steps if each.blind or each.work not in {Work.UNDONE, Work.STAYS}]
    if others:
        steps = ", ".join(f"{each.step.number} {each.step.tool}" for each in others)
        why = f"step {steps} cannot be undone without a person; ask the operator: `saga-mcp revert {saga.id}`"
        raise RevertRefused(saga.id, why)


def _nothing_left(saga: Saga) -> str:
    if saga.reverted:
        return f"it is {reverted_words(saga)} already"
    return "none of its steps can be undone"


def planned(step: Step) -> Planned:
    """What a revert does about a step that it takes over."""
    parts = step.parts or ()
    residue = tuple(part.spec.message for part in parts if part.spec.action is PartAction.LEAVE)
    if not parts:
        work = Work.UNBUILT
    elif any(part.spec.action is PartAction.MANUAL for part in parts):
        work = Work.PERSON
    elif not any(part.spec.action is PartAction.CALL for part in parts):
        work = Work.STAYS
    else:
        work = Work.UNDONE
    return Planned(step=step, work=work, blind=any(_blind(step, part) for part in parts), residue=residue)


def _blind(step: Step, part: Part) -> bool:
    """Whether a call goes out without a look: a guard watches what its pair's own undo is about, and no more (S6.7)."""
    return part.spec.action is PartAction.CALL and (part.registered or not step.plan.guarded)


def revert(saga: Saga, order: RevertOrder, driving: Driving) -> Reverting:
    """Open a saga that undoes what `order` names, newest first; the first conflict stops it.

    Raises:
        SagaNotFound: the log does not hold it.
        RevertRefused: it cannot be reverted, or not so; nothing was changed.
    """
    plan = plan_revert(saga, order)
    draft = Draft(Saga(id=order.revert))
    purpose = f"revert of {saga.id}"
    draft.add(
        SagaOpened(
            realm=saga.realm,
            driver=driving.driver,
            on_undo_failure=OnUndoFailure.HALT,
            caller=saga.caller,
            opener=saga.opener,
            conversation=saga.conversation,
            purpose=f"{purpose}: {saga.purpose}"[:_LONGEST_PURPOSE] if saga.purpose else purpose,
            reverts=saga.id,
        )
    )
    taken = sorted((each.step for each in plan.steps), key=lambda step: step.number)
    for number, step in enumerate(taken, 1):
        draft.add(_adopted(number, step, _seen(saga, step) if order.step else {}))
    draft.add(whole(f"revert:{saga.id}", driving.driver, by=order.by, reason=order.reason))
    noted = SagaReverted(revert=order.revert, steps=tuple(step.number for step in taken), by=order.by)
    return Reverting(noted=(noted,), opened=draft.saga, events=draft.drafted())


def _seen(saga: Saga, step: Step) -> JsonObject:
    """What an undo by itself may look at of the steps before its own, which stand (S6.1)."""
    return {each.tool: each.result for each in last_succeeded(saga, step.intent_seq) if revertible(saga, each)}


def _adopted(number: int, step: Step, results: JsonObject) -> StepAdopted:
    return StepAdopted(
        step=number,
        undoes=step.number,
        plan=step.plan,
        intent_seq=step.intent_seq,
        order=step.order,
        main=step.main,
        registered=step.registered,
        results=results,
        build_error=step.build_error,
        capture=step.capture,
        image=step.image,
        after=step.after,
        result=step.result,
    )
