"""Machines, and which of them has to do what is due (SEMANTICS.md S1.3). Pure.

What a step of a machine's own upstream did is probed, sent again and undone by processes of that machine only.
"""

from __future__ import annotations

from collections.abc import Iterable

from saga_mcp.domain.copying import replace
from saga_mcp.domain.duties import Abort, Duty, Finish, Probe, ProbeUndo, Resend, RunUndo, SendApproved, duties
from saga_mcp.domain.errors import ItemRefused
from saga_mcp.domain.events import Event, StepHostAwaited
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.transition import put_step, require
from saga_mcp.domain.values import PartAction


def host_key(host: str) -> str:
    """What tells a machine from all others, of a host id `NAME/KEY` or of one that is its own key."""
    return host.rpartition("/")[2]


def host_name(host: str) -> str:
    """How people know a machine."""
    return host.partition("/")[0]


def is_elsewhere(step: Step, here: str) -> bool:
    """Whether a step is for processes of another machine than `here`."""
    return step.plan.host != "" and host_key(step.plan.host) != host_key(here)


def host_of(duty: Duty) -> str:
    """The machine whose processes have to do it; empty: any may."""
    match duty:
        case RunUndo(step=step, part=part):
            return step.plan.host if part.spec.action is PartAction.CALL else ""
        case Probe(step=step) | ProbeUndo(step=step) | Resend(step=step) | SendApproved(step=step):
            return step.plan.host
        case Abort() | Finish():
            return ""


def done_on(due: Iterable[Duty], here: str) -> tuple[Duty, ...]:
    """Those duties that processes of the machine `here` may do."""
    return tuple(duty for duty in due if not (host := host_of(duty)) or host_key(host) == host_key(here))


def awaited_hosts(saga: Saga, here: str) -> tuple[str, ...]:
    """The machines that have to go on, where nothing that is due may be done on `here`; none where something may."""
    due = duties(saga)
    return () if done_on(due, here) else tuple(dict.fromkeys(map(host_of, due)))


def awaiting(saga: Saga, here: str = "") -> tuple[Step, ...]:
    """Steps that are due, each on a machine other than `here`: to be probed, sent again or undone.

    A call that was allowed and not sent is none of them: nothing of it is in the world.
    """
    found = {
        duty.step.number: duty.step
        for duty in duties(saga)
        if isinstance(duty, RunUndo | Probe | ProbeUndo | Resend)
        and (host := host_of(duty))
        and host_key(host) != host_key(here)
    }
    return tuple(found.values())


def await_hosts(saga: Saga, numbers: Iterable[int]) -> tuple[Event, ...]:
    """Record that steps have waited for their machines for too long, as far as that is still so and not recorded."""
    due = {step.number: step for step in awaiting(saga)}
    return tuple(StepHostAwaited(step=n) for n in numbers if n in due and not due[n].host_awaited)


def apply_host_awaited(saga: Saga, step: Step) -> Saga:
    """The saga with it noted that a step waits for its machine; with the next event of the step that ends.

    Raises:
        IllegalTransition: it does not.
    """
    require(any(each.number == step.number for each in awaiting(saga)), "it is not due on a machine of its own")
    require(not step.host_awaited, "that is noted already")
    return put_step(saga, replace(step, host_awaited=True))


def require_here(step: Step, name: str, here: str) -> None:
    """Refuse what only a process of the step's own machine can find out.

    Raises:
        ItemRefused: this is another one.
    """
    if is_elsewhere(step, here):
        machine = host_name(step.plan.host)
        raise ItemRefused(
            f"{name} needs host {machine}, where it was done: only there it can be asked what happened. Nothing was "
            "changed. Run this there."
        )
