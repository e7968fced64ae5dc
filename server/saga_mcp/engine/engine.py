"""The engine: runs steps and rollbacks in tasks of its own; requests only wait for them (DESIGN.md rules 1 to 6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Self

import anyio
from anyio.abc import TaskGroup

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import LogUnavailable, SagaNotFound, SagaPruned
from saga_mcp.domain.events import Event
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.person_decisions import resolve_landed
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.saga_decisions import commit, request_abort, set_savepoint
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import Landing
from saga_mcp.domain.values import JsonValue, Kind, Phase
from saga_mcp.engine.alerting import Alerting, AlertSender
from saga_mcp.engine.allowed import Allowed, Questions
from saga_mcp.engine.clock import Clock, SystemClock
from saga_mcp.engine.delivery import Delivery
from saga_mcp.engine.first_turn import FirstTurns
from saga_mcp.engine.forward import Forward
from saga_mcp.engine.idling import Idling
from saga_mcp.engine.lasting import lasting
from saga_mcp.engine.openings import Openings
from saga_mcp.engine.overdue import overdue_steps
from saga_mcp.engine.port import (
    Answer,
    Caller,
    CallReply,
    EngineSettings,
    PersonDecision,
    Receipt,
    Relay,
    SagaDriver,
    SagaIdMissing,
    UnknownTool,
    named_saga,
)
from saga_mcp.engine.probing import Probing
from saga_mcp.engine.reading import ReadOnlyCalls
from saga_mcp.engine.relaying import Relaying
from saga_mcp.engine.reverting import open_revert
from saga_mcp.engine.sealing import sealed
from saga_mcp.engine.steps import Steps
from saga_mcp.engine.stranded import Stranded
from saga_mcp.engine.ticket import Order, plan_of
from saga_mcp.engine.undo_probing import UndoProbing
from saga_mcp.engine.waiting import OnProgress, settled
from saga_mcp.engine.workshop import Decider, DriverFactory, Workshop
from saga_mcp.log.outbox import Outbox
from saga_mcp.log.port import Claim, Owners, SagaLog, SagaRow
from saga_mcp.tools.hidden import asks, pair_for
from saga_mcp.tools.port import Arguments, Catalogue, Landed, Tool, ToolAnswer


class Engine:
    """One per process. Every method that changes something returns after the change is durable."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup, driver: SagaDriver) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._driver = driver
        self._forward = Forward(workshop, self._driver, tasks)
        delivery = Delivery()
        self._first_turns = FirstTurns(workshop, delivery)
        self._openings = Openings(workshop)
        self._steps = Steps(workshop, self._driver, self._forward, delivery, tasks)
        self._idling = Idling(workshop, self._driver)
        self._stranded = Stranded(workshop, self._driver)
        self._reads = ReadOnlyCalls(workshop, tasks)
        self._relaying = Relaying(workshop, self.decide_item, tasks)
        self.probing = Probing(workshop, tasks)
        self._alerting: Alerting | None = None
        self.undo_probing = UndoProbing(workshop, tasks)
        self._draining = False

    @property
    def settings(self) -> EngineSettings:
        """What the config says about every saga."""
        return self._shop.settings

    @property
    def standing(self) -> Claim:
        """Whether others see that this process lives: it does what is due only while they do (S3.5)."""
        return self._shop.owners.standing

    @property
    def driven_otherwise(self) -> str:
        """Name of the driver that has the realm, where it is not this process's; empty: it is."""
        return self._shop.otherwise

    @property
    def driver_trouble(self) -> str:
        """Why rollbacks do not go on now; empty: they do."""
        return self._driver.trouble

    @classmethod
    @asynccontextmanager
    async def running(  # noqa: PLR0913 - the parts of a process, and how it is to work
        cls,
        settings: EngineSettings,
        log: SagaLog,
        owners: Owners,
        catalogue: Catalogue,
        driver: DriverFactory,
        *,
        clock: Clock | None = None,
        drive: bool = True,
        tells: bool = False,
        alerts: tuple[Outbox, AlertSender] | None = None,
    ) -> AsyncGenerator[Self]:
        """The engine with its tasks; recovery of what dead processes left goes on in the background.

        Args:
            settings: what the config says about every saga.
            log: the saga log.
            owners: who is alive.
            catalogue: everything this process can call.
            driver: makes what drives sagas to rest.
            clock: time and jitter; default: the machine's.
            drive: False only appends and reads: for a command that leaves the driving to a live server.
            tells: write each alert to the program's own log too.
            alerts: where they lie and where they go, for whoever drives; None: nowhere.
        """
        workshop = Workshop(
            settings=settings,
            log=log,
            owners=owners,
            catalogue=catalogue,
            clock=clock or SystemClock(),
            drives=drive,
            tells=tells,
        )
        async with anyio.create_task_group() as tasks:
            engine = cls(workshop, tasks, driver(workshop, tasks))
            if drive:
                engine._driver.start(engine._forward, Allowed(workshop, engine._forward))
                tasks.start_soon(engine._idling.watch)
                tasks.start_soon(Questions(workshop).watch)
                tasks.start_soon(engine._stranded.watch)
                if alerts is not None:
                    engine._alerting = Alerting(workshop, *alerts, tasks)
                    tasks.start_soon(engine._alerting.watch)
            try:
                yield engine
            finally:
                # What still runs falls in doubt at the next start, as after a kill: one way to stop, always exercised.
                tasks.cancel_scope.cancel()

    # --- governed calls -----------------------------------------------------------------------------------------------

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
        """Run a tool: as a step of `saga_id`, of a new saga without one, or as a plain read.

        Without a `receipt` the reply counts as sent when this returns.

        Raises:
            UnknownTool, InvalidArguments, SagaIdMissing, SagaIdMistyped, Refused, LogError: nothing was sent.
        """
        self._require_open()
        tool = self._tool(offered)
        args = tool.decode(arguments)
        pair = pair_for(tool.pair, args.json)
        if pair.kind is Kind.READ_ONLY:
            audited = saga_id is not None and self._shop.settings.audit_reads
            audited_in = (await self.saga(saga_id)).id if audited and saga_id else ""
            return await self._reads.call(tool, args, caller, audited_in, pair.secret)
        pair = self._shop.catalogue.frozen(pair)
        plan, asked = plan_of(pair, args.json, step_key, caller, offered=offered), asks(pair, args.json)
        if not asked:  # else the stored call is what runs, and has to be whole
            plan = await sealed(plan, pair, self._shop.log)
        order = Order(tool=tool, pair=pair, plan=plan, asks=asked)
        if saga_id is not None:
            return await self._asked(order, args, named_saga(saga_id), caller, receipt)
        if self._shop.settings.saga_id_required:
            raise SagaIdMissing
        async with self._first_turns.saga_for(caller, order.plan) as (implicit, mine):
            opening = self._openings.opening(caller, implicit=True)
            async with caller.opening(implicit):
                reply = await self._asked(replace(order, opening=opening), args, implicit, caller, receipt)
        return replace(reply, opened=mine)

    async def _asked(
        self, order: Order, args: Arguments, saga_id: str, caller: Caller, receipt: Receipt | None
    ) -> CallReply:
        """Have a step run; where a person has to allow it first and its client can ask, wait for that answer too."""
        within_s = self._shop.settings.reply_within_s
        deadline = self._shop.clock.now() + within_s
        reply = await self._steps.run(order, args, saga_id, caller, receipt, within_s=within_s)
        if reply.code != "approval_needed" or reply.saga is None or caller.ask is None:
            return reply
        left_s = deadline - self._shop.clock.now()
        relay = await self._relaying.put(reply.saga, reply.step, caller.ask, within_s=left_s)
        if relay in (Relay.OPEN, Relay.UNANSWERED):
            return replace(reply, relay=relay)
        left_s = max(0.0, deadline - self._shop.clock.now())
        # As any equal call that comes back for its answer, which nobody has had yet.
        told = await self._steps.run(order, args, saga_id, caller, receipt, within_s=left_s)
        return replace(told, was_idle=reply.was_idle, replayed=False, relay=relay)

    async def relay(self, saga_id: str, number: int, answer: Answer) -> Relay:
        """Append what a client says that a person answered; `TOO_LATE`: nothing was changed."""
        return await self._relaying.append(saga_id, number, answer)

    def _tool(self, offered: str) -> Tool:
        tool = self._shop.catalogue.offered.get(offered)
        if tool is None:
            nearest = get_close_matches(offered, self._shop.catalogue.offered, n=1)
            raise UnknownTool(offered, nearest[0] if nearest else "")
        return tool

    # --- sagas --------------------------------------------------------------------------------------------------------

    async def begin(self, caller: Caller, *, purpose: str = "", key: str = "", team: str = "") -> Saga:
        """Open a saga, of a team where one is named; the same `key` returns the same one, refused if final (S8.4)."""
        self._require_open()
        return await self._openings.begin(caller, purpose=purpose, key=key, team=team)

    async def commit(self, saga_id: str, *, by: str, accept_failed: Sequence[int] = ()) -> Saga:
        """Keep everything; idempotent.

        Raises:
            CommitRefused: with every reason at once.
        """
        accepted = tuple(accept_failed)
        return await self._decide(saga_id, lambda saga, _: commit(saga, by=by, accept_failed=accepted))

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
        """Undo; answers within `reply_within_s` with the state then, the rollback goes on.

        `on_progress` is told the state meanwhile, at first and then at most once a second.
        """
        deadline = self._shop.clock.now() + self._shop.settings.reply_within_s
        wanted = partial(request_abort, cause=cause, by=by, reason=reason, to_savepoint=to_savepoint)
        aborted = await self._decide(saga_id, wanted, driven_in=(Phase.COMPENSATING,))
        if aborted.phase is not Phase.COMPENSATING:
            return aborted
        return await settled(aborted, deadline, self._shop, self._driver, on_progress)

    async def revert(self, saga_id: str, order: RevertOrder, on_progress: OnProgress | None = None) -> Saga:
        """Undo a committed saga by a new one, newest step first; answers like `abort`, with the state of the new one.

        Raises:
            RevertRefused: it cannot be reverted, or not so; nothing was changed.
        """
        self._require_open()
        deadline = self._shop.clock.now() + self._shop.settings.reply_within_s
        saga = await self.saga(saga_id)

        async def begin() -> Saga:
            begun = await open_revert(self._shop, saga, order)
            await self._driver.wake(begun.id)
            return begun

        return await settled(await lasting(begin, self._tasks), deadline, self._shop, self._driver, on_progress)

    async def savepoint(self, saga_id: str, name: str) -> Saga:
        """Set a mark."""
        return await self._decide(saga_id, lambda saga, _: set_savepoint(saga, name))

    async def saga(self, saga_id: str) -> Saga:
        """The state now.

        Raises:
            SagaIdMistyped, SagaNotFound: there is no such saga in this realm.
        """
        try:
            saga = await self._shop.log.load(named_saga(saga_id))
        except SagaPruned as pruned:
            raise pruned.as_told_to(self._shop.settings.realm) from None
        if saga.realm != self._shop.settings.realm:
            raise SagaNotFound(saga_id)
        return saga

    async def paused(self) -> Mapping[str, Pause]:
        """What a person has paused, by tool."""
        return await self._shop.log.paused(self._shop.settings.realm)

    async def overdue(self, saga: Saga) -> tuple[int, ...]:
        """Steps that another process runs past their hard deadline, and says nothing of."""
        return await overdue_steps(self._shop, saga)

    async def open_sagas(
        self, caller: Caller, *, limit: int = 100, owners: Sequence[str | None] = ()
    ) -> Sequence[SagaRow]:
        """The caller's open sagas, or those of `owners` (None: everybody); this conversation's first, newest first."""
        realm, mine = self._shop.settings.realm, caller.conversation
        rows: list[SagaRow] = []
        for owner in owners or (caller.id,):
            rows += await self._shop.log.sagas(realm, caller=owner, open_only=True, limit=limit)
        rows = sorted(rows, key=lambda row: (-row.opened_at, row.id))[:limit]
        if not mine:
            return rows
        ours = await self._shop.log.sagas(realm, caller=caller.id, conversation=mine, open_only=True, limit=limit)
        named = {row.id for row in ours}
        return [*ours, *(row for row in rows if row.id not in named)][:limit]

    async def decide_item(self, saga_id: str, decision: PersonDecision) -> Saga:
        """Append what a person decided about an attention item, and drive on.

        Raises:
            Refused: the verb does not fit what waits there; nothing was changed.
        """
        return await self._decide(saga_id, decision, driven_in=tuple(Phase))

    async def resolve_landed(
        self, saga_id: str, number: int, *, result: JsonValue, known: bool, by: str, note: str
    ) -> Saga:
        """A person found that a step took effect; with its result where they know it, so that its undo can be built.

        Raises:
            Refused: nothing waits there that this settles; nothing was changed.
        """

        def decision(saga: Saga, driving: Driving) -> tuple[Event, ...]:
            step = saga.find_step(number)
            if step is not None and known:
                landing = self._shop.landing(saga, number, Landed(answer=ToolAnswer(), result=result))
            else:
                landing = Landing(result=result, undo=BoundUndo() if step is None else driving.bind(step))
            return resolve_landed(saga, number, landing, by=by, note=note, driving=driving)

        return await self.decide_item(saga_id, decision)

    async def rest(self, saga_id: str) -> Saga:
        """The state once nothing of the saga runs or is due any more."""
        await self._driver.rest(saga_id)
        return await self._shop.log.load(saga_id)

    async def drain(self, grace_s: float) -> None:
        """Start nothing new, and wait at most that long for what runs to be recorded (S12.1)."""
        self._draining = True
        self._stranded.stop()
        self._idling.stop()
        self._driver.stop()
        self._forward.stop()
        with anyio.move_on_after(grace_s):
            await self._steps.ended()
            await self._driver.stopped()
            await self._reads.recorded()

    async def alerted(self, within_s: float) -> None:
        """Wait, at most that long, for alerts that can be delivered: for a command after which nobody is left."""
        if self._alerting is not None:
            await self._alerting.settled(within_s)

    async def _decide(self, saga_id: str, decider: Decider, *, driven_in: Collection[Phase] = ()) -> Saga:
        name, realm = named_saga(saga_id), self._shop.settings.realm

        def of_this_realm(saga: Saga, driving: Driving) -> tuple[Event, ...]:
            if saga.opened and saga.realm != realm:
                raise SagaNotFound(saga.id)
            return decider(saga, driving)

        async def decide() -> Saga:
            # The caller has to be told something some time: to ask for the same again does no harm.
            within_s = self._shop.settings.reply_within_s
            saga = (await self._shop.decide(name, of_this_realm, settle_within_s=within_s)).saga
            if saga.phase in driven_in:
                await self._driver.wake(name)
            return saga

        try:
            return await lasting(decide, self._tasks)
        except SagaPruned as pruned:
            raise pruned.as_told_to(realm) from None

    def _require_open(self) -> None:
        if self._draining:
            message = "This server is shutting down. Nothing was stored and nothing was sent. Try again in a moment."
            raise LogUnavailable(message)
        self._shop.require_claim()
