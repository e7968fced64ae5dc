"""Random lives of a saga whose steps are of two machines, with a process on each (SEMANTICS.md S1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import precondition, rule
from tests.domain import alphabet as a
from tests.domain.test_saga_stateful import PROCESSES, SagaLife

from saga_mcp.domain import hosts, saga_decisions
from saga_mcp.domain.copying import replace
from saga_mcp.domain.duties import duties
from saga_mcp.domain.hosts import done_on

PLANS = {
    plan.tool: plan
    for plan in (
        replace(a.PYTHON, tool="of-a", host="a"),
        replace(a.PLAIN, tool="of-b", host="b"),
        replace(a.PROBABLE, tool="probable-of-b", host="b"),
    )
}
_STEPS = 4


class LifeOnMachines(SagaLife):
    """Both processes drive by the same rules; each does only what is for its machine, or for any."""

    machines: ClassVar[Mapping[str, str]] = {"first": "a", "second": "b"}

    @rule(tool=st.sampled_from(sorted(PLANS)), truth=st.sampled_from(["ok", "ok", "no", "lost", "slow"]))
    def call_a_tool_of_a_machine(self, tool: str, truth: str) -> None:
        owner = next(who for who, here in self.machines.items() if here == PLANS[tool].host)
        if len(self.saga.steps) < _STEPS and self._attempt(
            lambda: saga_decisions.begin_step(self.saga, PLANS[tool], owner)
        ):
            self._send(len(self.saga.steps), truth, owner)

    @rule(owner=PROCESSES)
    def the_driving_is_given_back(self, owner: str) -> None:
        due = duties(self.saga)
        if self._append(saga_decisions.give_back(self.saga, owner, self.machines[owner])):
            assert due, "given back, and nothing is due"
            assert not done_on(due, self.machines[owner]), "given back what could go on here"
            assert self.saga.driver == ""

    @precondition(lambda self: not self.saga.driver and not self.saga.final)
    @rule(owner=PROCESSES)
    def what_nobody_drives_is_taken(self, owner: str) -> None:
        due, here = duties(self.saga), self.machines[owner]
        taking = saga_decisions.take_over(self.saga, self._driving(owner), dead=lambda _: False, here=here)
        self._append(taking)
        if due:
            assert self.saga.driver == (owner if done_on(due, here) else ""), "taken by the wrong machine"

    @rule()
    def people_are_told_what_waits(self) -> None:
        before = self.saga
        self._append(hosts.await_hosts(self.saga, range(1, len(self.saga.steps) + 1)))
        for step in self.saga.steps:
            if step.host_awaited and not before.step(step.number).host_awaited:
                assert step.plan.host, "waits for no machine"
                assert not step.running, "waits, and runs"


LifeOnMachines.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestLifeOnMachines = LifeOnMachines.TestCase
