"""The one door that the saga ids of remote callers pass: no method of the port is beside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.edge.scripted import Script

from saga_mcp.domain.errors import CommitReserved, SagaNotFound, SagaNotYours
from saga_mcp.domain.ids import saga_id
from saga_mcp.domain.ownership import CommitBy, Owner, Principal, Use, owner_of_team
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.edge.owned import CallerLimits, OwnedSagas, Owners
from saga_mcp.edge.service import SagaService
from saga_mcp.engine.port import Answer, Caller, CallReply

HERS = saga_id(bytes(range(16)))
_CALLER = Caller(id="eve", remote=True)

Way = Callable[[SagaService], Coroutine[Any, Any, object]]
WAYS: dict[str, Way] = {
    "call": lambda service: service.call("tool", {}, saga_id=HERS, caller=_CALLER),
    "relay": lambda service: service.relay(HERS, 1, Answer(allowed=True, by="eve")),
    "commit": lambda service: service.commit(HERS, by="eve"),
    "abort": lambda service: service.abort(HERS, cause="agent"),
    "revert": lambda service: service.revert(HERS, RevertOrder(by="eve")),
    "savepoint": lambda service: service.savepoint(HERS, "mark"),
    "saga": lambda service: service.saga(HERS),
}


class Engine(Script):
    """Knows one saga, which is somebody's; notes what gets through to it."""

    def __init__(self, caller: str, opener: str = "") -> None:
        super().__init__(CallReply(saga_id=HERS))
        self.hers = Saga(id=HERS, seq=1, caller=caller, opener=opener)

    async def saga(self, saga_id: str) -> Saga:
        assert saga_id == HERS
        return self.hers


def door(engine: Engine, principal: Principal) -> OwnedSagas:
    return OwnedSagas(engine, principal, Owners(), CallerLimits())


def test_each_method_of_the_port_that_takes_an_id_is_tried_here() -> None:
    methods = inspect.getmembers(SagaService, inspect.isfunction)
    taking = {name for name, method in methods if "saga_id" in inspect.signature(method).parameters}
    assert taking == WAYS.keys()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("owner", ["alice", "", owner_of_team("desk")])
async def test_nothing_of_somebody_elses_saga_gets_through(way: Way, owner: str) -> None:
    engine = Engine(owner)
    principal = Principal(id="eve", teams={"other": CommitBy.ANY})
    with pytest.raises(SagaNotFound):
        await way(door(engine, principal))
    assert engine.asked == []


@pytest.mark.parametrize("use", Use)
@pytest.mark.parametrize(
    ("principal", "owner", "refused"),
    [
        (Principal(id="alice"), Owner(caller="alice"), {}),
        (Principal(id="eve"), Owner(caller="alice"), dict.fromkeys(Use, SagaNotFound)),
        (Principal(id=""), Owner(caller="alice"), dict.fromkeys(Use, SagaNotFound)),
        (Principal(id="op", operator=True), Owner(caller="alice"), {Use.WORK: SagaNotYours}),
        (Principal(id="bob", teams={"d": CommitBy.ANY}), Owner(caller="team:d", opener="alice"), {}),
        (
            Principal(id="bob", teams={"d": CommitBy.OPENER}),
            Owner(caller="team:d", opener="alice"),
            {Use.COMMIT: CommitReserved},
        ),
        (Principal(id="alice", teams={"d": CommitBy.OPENER}), Owner(caller="team:d", opener="alice"), {}),
        (
            Principal(id="alice", teams={}),
            Owner(caller="team:d", opener="alice"),
            dict.fromkeys(Use, SagaNotFound),
        ),
        (
            Principal(id="bob", operator=True, teams={"d": CommitBy.OPENER}),
            Owner(caller="team:d", opener="alice"),
            {},
        ),
    ],
)
def test_who_may_do_what(use: Use, principal: Principal, owner: Owner, refused: dict[Use, type[Exception]]) -> None:
    if use in refused:
        with pytest.raises(refused[use]):
            principal.require(HERS, owner, use)
    else:
        principal.require(HERS, owner, use)
