"""The engine as one caller of a shared server may use it (SEMANTICS.md S1.4).

Over HTTP this is the only way in: every saga id that a request brings, wherever it stands, passes `_require` before
anything of that saga is looked at, joined, replayed or changed. What is somebody else's does not exist.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from saga_mcp.domain.errors import LimitReached, ResourceHeld, SagaNotFound, SagaPruned, SagaQuarantined
from saga_mcp.domain.ownership import Owner, Principal, Use, owner_of_team
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonValue
from saga_mcp.edge.service import SagaService
from saga_mcp.engine.port import Answer, Caller, CallReply, EngineSettings, Receipt, Relay, named_saga
from saga_mcp.engine.recent import Recent
from saga_mcp.engine.waiting import OnProgress
from saga_mcp.log.port import Claim, SagaRow
from saga_mcp.tools.unsent import InvalidArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """What one caller may have and send; 0: any number."""

    open_sagas: int = 0
    argument_bytes: int = 0
    calls: int = 0
    """That are waited for at the same time, reads too."""


class Owners:
    """Whose the sagas are that this process has seen, which never changes; and who opens or calls just now."""

    def __init__(self) -> None:
        self._known: Recent[str, Owner] = Recent()
        self.opening: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Ids of the sagas that are being opened, by owner, and how many calls are about to."""
        self.calling: Counter[str] = Counter()

    async def of(self, service: SagaService, saga_id: str) -> Owner:
        """Whose a saga of the realm is.

        Raises:
            SagaNotFound, SagaQuarantined: it cannot be said.
        """
        known = self._known.get(saga_id)
        if known is None:
            saga = await service.saga(saga_id)
            known = Owner(caller=saga.caller, opener=saga.opener)
            self._known.put(saga_id, known)
        return known


class OwnedSagas:
    """A `SagaService` in which there is nothing but what its caller may see."""

    def __init__(self, service: SagaService, principal: Principal, owners: Owners, limits: CallerLimits) -> None:
        self._service = service
        self._principal = principal
        self._owners = owners
        self._limits = limits

    @property
    def settings(self) -> EngineSettings:
        """See `Engine`."""
        return self._service.settings

    @property
    def driver_trouble(self) -> str:
        """See `Engine`."""
        return self._service.driver_trouble

    @property
    def standing(self) -> Claim:
        """See `Engine`."""
        return self._service.standing

    async def call(
        self,
        offered: str,
        arguments: Mapping[str, JsonValue],
        *,
        saga_id: str | None = None,
        step_key: str = "",
        caller: Caller,
        receipt: Receipt | None = None,
    ) -> CallReply:
        """See `Engine`."""
        self._require_short(arguments)
        if saga_id is not None:
            await self._require(saga_id, Use.WORK)
        caller = replace(caller, opening=partial(self._room, self._principal.id))
        async with self._one_of_few(), self._discreet():
            return await self._service.call(
                offered, arguments, saga_id=saga_id, step_key=step_key, caller=caller, receipt=receipt
            )

    async def relay(self, saga_id: str, number: int, answer: Answer) -> Relay:
        """See `Engine`."""
        await self._require(saga_id, Use.WORK)
        return await self._service.relay(saga_id, number, answer)

    async def begin(self, caller: Caller, *, purpose: str = "", key: str = "", team: str = "") -> Saga:
        """See `Engine`; a team has to be one of the caller's.

        Raises:
            InvalidArguments: it is not.
        """
        if team and team not in self._principal.teams:
            known = ", ".join(sorted(self._principal.teams)) or "none"
            raise InvalidArguments((f'"team": you are in no team "{team}" (your teams: {known})',))
        caller = replace(caller, opening=partial(self._room, owner_of_team(team) if team else self._principal.id))
        return await self._service.begin(caller, purpose=purpose, key=key, team=team)

    async def commit(self, saga_id: str, *, by: str, accept_failed: Sequence[int] = ()) -> Saga:
        """See `Engine`."""
        await self._require(saga_id, Use.COMMIT)
        return await self._service.commit(saga_id, by=by, accept_failed=accept_failed)

    async def abort(
        self,
        saga_id: str,
        *,
        cause: str,
        by: str = "",
        reason: str = "",
        to_savepoint: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Saga:
        """See `Engine`."""
        owner = await self._require(saga_id, Use.UNDO)
        cause = cause if self._principal.owns(owner) else "operator"
        return await self._service.abort(
            saga_id, cause=cause, by=by, reason=reason, to_savepoint=to_savepoint, on_progress=on_progress
        )

    async def revert(self, saga_id: str, order: RevertOrder, on_progress: OnProgress | None = None) -> Saga:
        """See `Engine`."""
        await self._require(saga_id, Use.UNDO)
        async with self._discreet():
            return await self._service.revert(saga_id, order, on_progress)

    async def savepoint(self, saga_id: str, name: str) -> Saga:
        """See `Engine`."""
        await self._require(saga_id, Use.WORK)
        return await self._service.savepoint(saga_id, name)

    async def saga(self, saga_id: str) -> Saga:
        """See `Engine`."""
        await self._require(saga_id, Use.LOOK)
        return await self._service.saga(saga_id)

    async def paused(self) -> Mapping[str, Pause]:
        """See `Engine`."""
        return await self._service.paused()

    async def overdue(self, saga: Saga) -> tuple[int, ...]:
        """See `Engine`."""
        await self._require(saga.id, Use.LOOK)
        return await self._service.overdue(saga)

    async def open_sagas(
        self, caller: Caller, *, limit: int = 100, owners: Sequence[str | None] = ()
    ) -> Sequence[SagaRow]:
        """See `Engine`: the caller's, their teams', and for an operator everybody's."""
        del owners
        theirs = (None,) if self._principal.operator else self._principal.owners
        return await self._service.open_sagas(caller, limit=limit, owners=theirs)

    async def _require(self, saga_id: str, use: Use) -> Owner:
        """Return whose a saga is, if the caller may use it so.

        Raises:
            SagaIdMistyped: the text cannot be an id.
            Refused: they may not.
        """
        name = named_saga(saga_id)
        try:
            owner = await self._owners.of(self._service, name)
        except SagaPruned:
            if self._principal.operator:
                raise
            raise SagaNotFound(name) from None  # whose it was is not known any more
        except SagaQuarantined:
            if not self._principal.operator and not await self._lists(name):
                raise SagaNotFound(name) from None
            raise
        self._principal.require(name, owner, use)
        return owner

    async def _lists(self, name: str) -> bool:
        """Whether a saga that cannot be read stands among the caller's."""
        rows = await self._service.open_sagas(
            Caller(id=self._principal.id), limit=10_000, owners=self._principal.owners
        )
        return any(row.id == name for row in rows)

    @asynccontextmanager
    async def _room(self, owner: str, saga_id: str) -> AsyncGenerator[None]:
        """Let a saga be opened in somebody's name. What others open beside it counts, stored or not.

        Raises:
            LimitReached: there are too many.
        """
        opening, most = self._owners.opening[owner], self._limits.open_sagas
        opening[saga_id] += 1
        try:
            if most and not self._principal.operator:
                rows = await self._service.open_sagas(Caller(id=owner), limit=most, owners=(owner,))
                there = {row.id for row in rows}
                if saga_id not in there and len(there | opening.keys()) > most:
                    what = f"{most} of your sagas are open or being opened, which is the limit"
                    raise LimitReached(what, "End one that saga_status lists, or tell the user.")
            yield
        finally:
            opening[saga_id] -= 1
            if not opening[saga_id]:
                del opening[saga_id]
            if not opening:
                self._owners.opening.pop(owner, None)

    @asynccontextmanager
    async def _one_of_few(self) -> AsyncGenerator[None]:
        """Let one more call be waited for; the engine counts the steps that go on after that.

        Raises:
            LimitReached: there are too many.
        """
        calling, caller, most = self._owners.calling, self._principal.id, self._limits.calls
        if most and calling[caller] >= most:
            what = f"{most} calls of yours are running already, which is the limit"
            raise LimitReached(what, "Wait until one has ended, then make this call again.")
        calling[caller] += 1
        try:
            yield
        finally:
            calling[caller] -= 1
            if not calling[caller]:
                del calling[caller]

    def _require_short(self, arguments: Mapping[str, JsonValue]) -> None:
        most = self._limits.argument_bytes
        if most and len(json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass")) > most:
            raise LimitReached(f"the arguments are longer than {most} bytes", "Make several smaller calls of it.")

    @asynccontextmanager
    async def _discreet(self) -> AsyncGenerator[None]:
        """Name nobody else's saga in a refusal."""
        try:
            yield
        except ResourceHeld as held:
            if not held.holder or self._principal.operator:
                raise
            try:
                theirs = self._principal.owns(await self._owners.of(self._service, held.holder))
            except Exception:  # noqa: BLE001 - what cannot be read is not theirs to know
                theirs = False
            if theirs:
                raise
            raise held.as_told_to_others() from None
