"""Random lives of a saga against a simulated outside world: the assertions are on that world, not on our words for it.

Two processes share the log. Calls land or not, answer or not, in time or after everybody stopped waiting; processes
die; probes and persons tell the truth of the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.domain import alphabet as a
from tests.domain.outside import Call, UndoCall, World

from saga_mcp.domain import approvals, reverting, saga_decisions, step_decisions, undo_decisions
from saga_mcp.domain import person_decisions as person
from saga_mcp.domain.attention import items, reported_state
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.duties import Abort, Duty, Finish, Probe, ProbeUndo, Resend, RunUndo, SendApproved, duties
from saga_mcp.domain.errors import Refused
from saga_mcp.domain.events import Event, SagaOpened
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.hosts import done_on, is_elsewhere
from saga_mcp.domain.machine import apply, fold
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_decisions import Landing, Miss, Observation
from saga_mcp.domain.takeover import lost
from saga_mcp.domain.undo_decisions import Parking, UndoMiss
from saga_mcp.domain.values import Effect, ItemKind, Kind, OnError, OnUndoFailure, Phase, StepState

PLANS = {plan.tool: plan for plan in (a.PLAIN, a.PYTHON, a.PROBABLE, a.GUARDED, a.PIVOT, a.AGAIN)}
UNDOS = {
    "plain": (a.ONCE,),
    "python": (a.CALL,),
    "probable": (a.PROBED,),
    "guarded": (a.PROBED,),
    "pivot": (),
    "again": (),
    "of-a": (a.CALL,),
    "of-b": (a.ONCE,),
    "probable-of-b": (a.PROBED,),
}
PROCESSES = st.sampled_from(["first", "second"])
_STEPS = 4
_ENOUGH = 200


class SagaLife(RuleBasedStateMachine):
    """One saga, two processes, one world."""

    machines: ClassVar[Mapping[str, str]] = {"first": "", "second": ""}
    """Of which machine each process is; of none where that does not matter."""

    @initialize(on_error=st.sampled_from(OnError), on_undo_failure=st.sampled_from(OnUndoFailure))
    def open(self, on_error: OnError, on_undo_failure: OnUndoFailure) -> None:
        self.log: list[Event] = []
        self.saga = Saga(id="sg-life")
        self.past = self.saga
        self.world = World()
        self._append([SagaOpened(realm="r", driver="first", on_error=on_error, on_undo_failure=on_undo_failure)])

    def _append(self, events: Iterable[Event]) -> bool:
        before = len(self.log)
        for event in events:
            self.past = self.saga
            self.saga = apply(self.saga, event)
            self.log.append(event)
        return len(self.log) > before

    def _attempt(self, decide: Callable[[], tuple[Event, ...]]) -> bool:
        try:
            return self._append(decide())
        except Refused:
            return False

    def _driving(self, owner: str) -> Driving:
        def bind(step: Step) -> BoundUndo:
            return BoundUndo(parts=UNDOS[step.tool])

        return Driving(driver=owner, bind=bind)

    # --- the agent ----------------------------------------------------------------------------------------------------

    @rule(
        tool=st.sampled_from(sorted(PLANS)), truth=st.sampled_from(["ok", "ok", "no", "lost", "slow"]), owner=PROCESSES
    )
    def call_a_tool(self, tool: str, truth: str, owner: str) -> None:
        if len(self.saga.steps) < _STEPS and self._attempt(
            lambda: saga_decisions.begin_step(self.saga, PLANS[tool], owner)
        ):
            self._send(len(self.saga.steps), truth, owner)

    @rule(tool=st.sampled_from(sorted(PLANS)))
    def ask_for_a_call(self, tool: str) -> None:
        if len(self.saga.steps) < _STEPS:
            self._attempt(lambda: approvals.ask(self.saga, PLANS[tool]))

    def _send(self, number: int, truth: str, owner: str) -> None:
        self.world.calls.append(Call(number, owner, truth))
        if truth in {"ok", "lost"}:
            self.world.standing.add(number)

    @rule()
    def commit(self) -> None:
        failed = tuple(step.number for step in self.saga.steps if step.state is StepState.FAILED)
        if self._attempt(lambda: saga_decisions.commit(self.saga, by="agent", accept_failed=failed)):
            kept = {step.number for step in self.saga.steps if step.state is StepState.SUCCEEDED}
            undone = {step.number for step in self.saga.steps if step.state is StepState.COMPENSATED}
            assert kept <= self.world.standing, "committed what is not there"
            assert not undone & self.world.standing, "an undone step stands in a committed saga"

    @rule(back=st.booleans())
    def abort(self, back: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        driving = self._driving("first")
        self._attempt(
            lambda: saga_decisions.request_abort(self.saga, driving, cause="agent", to_savepoint="S" if back else None)
        )

    @precondition(lambda self: self.saga.phase is Phase.COMMITTED)
    @rule()
    def a_person_reverts_it(self) -> None:
        """From here on the life is that of the saga which undoes it."""
        if any(call.running for call in self.world.calls):
            return
        order = reverting.RevertOrder(revert="sg-revert", by="ada", window_s=1.0)
        try:
            reverted = reverting.revert(self.saga, order, self._driving("first"))
        except Refused:
            return
        assert fold(self.saga, reverted.noted).phase is Phase.COMMITTED
        self.saga, self.log = Saga(id="sg-revert"), []
        self.past = self.saga
        self._append(reverted.events)
        taken = {step.undoes: step.number for step in self.saga.steps}
        assert taken.keys() <= self.world.standing, "what is not there is undone"
        self.world = World(standing=set(taken.values()))

    @rule()
    def mark(self) -> None:
        self._attempt(lambda: saga_decisions.set_savepoint(self.saga, "S"))

    # --- forward actions ----------------------------------------------------------------------------------------------

    @precondition(lambda self: any(call.running for call in self.world.calls))
    @rule(pick=st.integers(0, 9), more=st.booleans())
    def a_call_ends(self, pick: int, more: bool) -> None:  # noqa: FBT001 - see above
        running = [call for call in self.world.calls if call.running]
        self._end(running[pick % len(running)], more=more)

    def _end(self, call: Call, *, more: bool) -> None:
        call.running = False
        driving, n = self._driving(call.owner), call.step
        if call.truth in {"ok", "slow"}:
            self.world.standing.add(n)
            landing = Landing(result=None, undo=BoundUndo(parts=UNDOS[self.saga.step(n).tool]))
            self._append(step_decisions.landed(self.saga, n, landing, driving))
            if step_decisions.is_observed(self.saga.step(n)):
                self.world.looking.append(call)
        else:
            effect = Effect.NONE if call.truth == "no" else Effect.UNKNOWN
            self._append(step_decisions.missed(self.saga, n, Miss(effect=effect, error="no", more=more), driving))

    @precondition(lambda self: bool(self.world.looking))
    @rule()
    def what_a_call_left_behind_is_read(self) -> None:
        call = self.world.looking.pop()
        seen = Observation(undo=BoundUndo(parts=UNDOS[self.saga.step(call.step).tool]))
        self._append(step_decisions.observed(self.saga, call.step, seen, self._driving(call.owner)))

    @precondition(lambda self: any(call.running for call in self.world.calls))
    @rule(pick=st.integers(0, 9))
    def nobody_waits_for_a_call_any_more(self, pick: int) -> None:
        running = [call for call in self.world.calls if call.running]
        call = running[pick % len(running)]
        self._append(step_decisions.goes_on(self.saga, call.step, reason="timeout", driving=self._driving(call.owner)))

    @precondition(lambda self: any(call.running for call in self.world.calls))
    @rule(pick=st.integers(0, 9))
    def a_deadline_passes(self, pick: int) -> None:
        """The call may still land, and answer: late."""
        running = [call for call in self.world.calls if call.running]
        call = running[pick % len(running)]
        driving = self._driving(call.owner)
        self._append(step_decisions.run_lost(self.saga, call.step, reason="deadline", end_known=False, driving=driving))

    @rule(pick=st.integers(0, 9), truth=st.sampled_from(["ok", "no", "lost"]), owner=PROCESSES)
    def a_call_is_tried_again(self, pick: int, truth: str, owner: str) -> None:
        steps = [step for step in self.saga.steps if step.state in {StepState.INTENDED, StepState.IN_DOUBT}]
        if not steps or self.world.running(steps[pick % len(steps)].number):
            return
        if is_elsewhere(steps[pick % len(steps)], self.machines[owner]):
            return
        number = steps[pick % len(steps)].number
        if self._append(step_decisions.attempt_again(self.saga, number, owner)):
            self._send(number, truth, owner)

    # --- crashes and driving ------------------------------------------------------------------------------------------

    @rule(owner=PROCESSES)
    def a_process_dies(self, owner: str) -> None:
        """What ran inside it ends with it; the other one folds the log and records what became of its work."""
        for call in self.world.calls:
            if call.owner == owner:
                call.running = False
        self.world.looking = [call for call in self.world.looking if call.owner != owner]
        if self.world.undo is not None and self.world.undo.owner == owner:
            self.world.undo = None
        assert fold(Saga(id=self.saga.id), self.log) == self.saga
        heir = "second" if owner == "first" else "first"
        self._append(lost(self.saga, lambda who: who == owner, self._driving(heir).bind))

    @rule(owner=PROCESSES)
    def the_driving_is_taken_over(self, owner: str) -> None:
        """Of a process that stands still: when it wakes, it goes on as if nothing had been."""
        others = {"first", "second"} - {owner}
        here = self.machines[owner]
        self._append(
            saga_decisions.take_over(self.saga, self._driving(owner), dead=lambda _: False, stalled=others, here=here)
        )

    @rule(owner=PROCESSES, stale=st.booleans(), works=st.booleans())
    def somebody_drives(self, owner: str, stale: bool, works: bool) -> None:  # noqa: FBT001 - see above
        """Possibly by a picture of the saga that is no longer true: then the log must refuse, or nothing happens."""
        due = duties(self.past if stale and self.past.opened else self.saga)
        for duty in done_on(due, self.machines[owner])[:1]:
            self._do(duty, owner, works=works)

    def _do(self, duty: Duty, owner: str, *, works: bool) -> None:
        driving = self._driving(owner)
        match duty:
            case Abort() | Finish():
                self._append(saga_decisions.abort_as_due(self.saga, driving))
            case Probe(step=step):
                self._probe(step.number, driving)
            case Resend(step=step):
                if self._append(step_decisions.send_again(self.saga, step.number, owner)):
                    self._send(step.number, "ok" if works else "lost", owner)
            case SendApproved(step=step):
                if self._attempt(lambda: approvals.begin_allowed(self.saga, step.number, owner, None)):
                    assert self.saga.driver == owner, "sent by a process that drives the saga no more"
                    self._send(step.number, "ok" if works else "lost", owner)
            case RunUndo(step=step) if step.plan.guarded and step.number not in self.world.standing:
                self._append(undo_decisions.undo_unneeded(self.saga, step.number, driving))
            case RunUndo(step=step, part=part):
                if self._append(undo_decisions.undo_intended(self.saga, step.number, part.id, owner)):
                    self._undo_sent(UndoCall(step.number, part.id, owner, works))
            case ProbeUndo(step=step, part=part):
                done = step.number not in self.world.standing
                self._append(undo_decisions.undo_probed(self.saga, step.number, part.id, done=done, driving=driving))

    def _probe(self, number: int, driving: Driving) -> None:
        if number in self.world.standing:
            landing = Landing(result=None, undo=BoundUndo(parts=UNDOS[self.saga.step(number).tool]))
            self._append(step_decisions.probed_landed(self.saga, number, landing, driving))
        else:
            self._append(step_decisions.probed_absent(self.saga, number, driving))

    # --- undos --------------------------------------------------------------------------------------------------------

    def _undo_sent(self, call: UndoCall) -> None:
        assert self.world.undo is None, "two undos at once"
        assert self.saga.driver == call.owner, "undone by a process that drives the saga no more"
        assert not self.world.may_land(call.step), "undo overtakes do"
        self.world.undo = call
        step = self.saga.step(call.step)
        assert not is_elsewhere(step, self.machines[call.owner]), "undone where it was not done"
        newer = {
            other.number
            for other in self.saga.steps
            if other.order > step.order and other.state is not StepState.EXEMPT and other.number in self.world.standing
        }
        if self.saga.on_undo_failure is OnUndoFailure.HALT:
            assert not newer, "a newer effect still stands"
        assert not any(self.saga.step(n).kind is Kind.PIVOT for n in newer), "undone across a pivot"
        if call.works:
            self.world.standing.discard(call.step)
            self.world.executed[call.step] = self.world.executed.get(call.step, 0) + 1

    @precondition(lambda self: self.world.undo is not None)
    @rule(how=st.sampled_from(["answers", "is lost", "times out", "gives up"]))
    def an_undo_ends(self, how: str) -> None:
        call = self.world.undo
        assert call is not None
        n, part, driving = call.step, call.part, self._driving(call.owner)
        if how == "times out":
            self._append(undo_decisions.undo_goes_on(self.saga, n, part, "timeout"))
            return
        self.world.undo = None
        if how == "is lost":
            self._append(undo_decisions.undo_lost(self.saga, n, part, "transport_lost", driving))
        elif call.works:
            self._append(undo_decisions.undo_done(self.saga, n, part, "", driving))
        else:
            parking = Parking(item=ItemKind.DEAD_LETTER, message="no") if how == "gives up" else None
            miss = UndoMiss(effect=Effect.NONE, error="no")
            self._append(undo_decisions.undo_missed(self.saga, n, part, miss, driving, parking=parking))

    # --- a person -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(items(self.saga)))
    @rule(pick=st.integers(0, 9), leave=st.booleans())
    def a_person_settles_an_item(self, pick: int, leave: bool) -> None:  # noqa: FBT001 - see above
        waiting = items(self.saga)
        item = waiting[pick % len(waiting)]
        n, driving = item.step, self._driving("first")
        by_whom = {"by": "ada", "note": "looked"}
        if item.kind is ItemKind.APPROVAL:
            self._append(
                approvals.reject(self.saga, n, **by_whom, driving=driving)
                if leave
                else approvals.approve(self.saga, n, **by_whom, now=0.0)
            )
            return
        if leave:
            self._append(person.exempt(self.saga, n, **by_whom, driving=driving))
            return
        match item.kind:
            case ItemKind.IN_DOUBT if n in self.world.standing:
                undo = BoundUndo(parts=UNDOS[item.tool])
                self._append(
                    person.resolve_landed(self.saga, n, Landing(result=None, undo=undo), **by_whom, driving=driving)
                )
            case ItemKind.IN_DOUBT:
                self._append(person.resolve_absent(self.saga, n, **by_whom, driving=driving))
            case ItemKind.RETRIABLE_EXHAUSTED:
                self._append(person.retry(self.saga, n, **by_whom, driving=driving))
            case ItemKind.DEAD_LETTER:
                self.world.allowed[n] = self.world.allowed.get(n, 0) + 1
                self._append(person.retry(self.saga, n, **by_whom, driving=driving))
            case ItemKind.UNDO_IN_DOUBT if n in self.world.standing:
                self._append(person.retry(self.saga, n, **by_whom, driving=driving))
            case _:
                self.world.standing.discard(n)
                self._append(person.resolve_undone(self.saga, n, **by_whom, driving=driving))

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_that_is_not_idempotent_is_undone_twice(self) -> None:
        for number, times in self.world.executed.items():
            if self.saga.step(number).tool != "python":
                assert times <= 1 + self.world.allowed.get(number, 0)

    @invariant()
    def a_saga_that_reads_compensated_leaves_nothing(self) -> None:
        if self.saga.phase is Phase.COMPENSATED and reported_state(self.saga) == Phase.COMPENSATED:
            exempt = {step.number for step in self.saga.steps if step.state is StepState.EXEMPT}
            assert self.world.standing <= exempt

    def teardown(self) -> None:
        """Whatever happened: with calls ended, duties done and items settled, the saga rests and the world is clean."""
        if not hasattr(self, "saga"):
            return
        for call in self.world.calls:
            if call.running:
                self._end(call, more=False)
        for _ in range(_ENOUGH):
            self._step_towards_rest()
            if not self._restless():
                break
        assert not self._restless(), "never comes to rest"
        if self.saga.pivot_passed:
            self.commit()
            assert self.saga.phase is Phase.COMMITTED
        elif self.saga.phase is Phase.ACTIVE:
            self.abort(back=False)
            self.teardown()

    def _restless(self) -> bool:
        calls = any(call.running for call in self.world.calls) or bool(self.world.looking)
        between = any(step.state is StepState.INTENDED for step in self.saga.steps)
        return calls or between or bool(duties(self.saga) or items(self.saga) or self.world.undo)

    def _step_towards_rest(self) -> None:
        if self.world.looking:
            self.what_a_call_left_behind_is_read()
        elif self.world.undo is not None:
            self.an_undo_ends(how="answers")
        elif duties(self.saga):
            due = duties(self.saga)
            able = next(who for who, here in self.machines.items() if done_on(due[:1], here))
            self._append(saga_decisions.claim(self.saga, able))
            self._do(due[0], able, works=True)
        elif items(self.saga):
            self.a_person_settles_an_item(pick=0, leave=False)
        else:
            for owner in self.machines:
                self.a_call_is_tried_again(pick=0, truth="ok", owner=owner)
        for call in self.world.calls:
            if call.running:
                self._end(call, more=False)


SagaLife.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestSagaLife = SagaLife.TestCase
