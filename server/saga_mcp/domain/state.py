"""The state of a saga as immutable values, and what can be read off it.

`machine.apply` is the only way to change a `Saga`. This module only holds the shapes and cheap questions about them.
Values of the outside world are carried along for the engine and take no part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from saga_mcp.domain.events import PartSpec, StepPlan
from saga_mcp.domain.ids import step_key
from saga_mcp.domain.undo_events import Outage
from saga_mcp.domain.values import (
    FINAL_PHASES,
    SETTLED_STEPS,
    WHOLE_SAGA,
    ItemKind,
    JsonObject,
    JsonValue,
    Kind,
    OnError,
    OnUndoFailure,
    PartState,
    Phase,
    StepState,
    Urgency,
)
from saga_mcp.domain.vector import Vector

Acknowledged: TypeAlias = tuple[tuple[str, int], ...]
"""By caller: the order key up to which the caller went on from the replies to its own steps (S8.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a step's undo and how far it has come."""

    id: str
    """`1`, `2`, ... for the pair's undo in written order, `r1`, `r2`, ... for parts the call registered."""
    spec: PartSpec
    state: PartState = PartState.PENDING
    attempts: int = 0
    """Attempts that count against the retry policy, across restarts (S6.5)."""
    tries: int = 0
    """All attempts, counted or not; paces the back-off."""
    generation: int = 0
    running: bool = False
    overdue: bool = False
    """It runs past its hard deadline and cannot be stopped."""
    probes_ended: bool = False
    overwrite: bool = False
    """A person let it go on although the guard found a conflict."""
    unneeded: bool = False
    """The guard found nothing to undo."""
    item: ItemKind | None = None
    urgency: Urgency = Urgency.NORMAL
    owner: str = ""
    outage: Outage | None = None
    """What it waits for, where the last attempt found it down."""
    error: str = field(default="", compare=False)
    """The last thing that went wrong, or what a person is asked."""

    @property
    def registered(self) -> bool:
        """Whether the call registered it, beside the pair's own undo."""
        return self.id.startswith("r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One governed call: a forward action, and what undoes it."""

    number: int
    plan: StepPlan
    state: StepState
    intent_seq: int = 0
    """`seq` of the event that recorded the intent; what a save-point is compared with."""
    order: int = 0
    """Order key: `seq` of the event with which the step first left `intended` (S5.2); 0 before that."""
    running: bool = False
    end_known: bool = False
    overdue: bool = False
    undoes: int = 0
    """Its number in the saga that this one reverts; 0: it was done here."""
    vouched: bool = False
    """A person said what the call did while it still ran: its own answer may come yet, and overrules that (S3.6)."""
    attempts: int = 0
    unknown_attempts: int = 0
    probes_ended: bool = False
    exhausted: bool = False
    approved: bool = False
    allowed_by: str = field(default="", compare=False)
    """Who said so."""
    expires_at: float = 0.0
    """While an approval is awaited: until when, by the wall clock."""
    cancelled: str = ""
    """Why the stored call was never sent: one of `Cancelled`."""
    landed: bool | None = None
    """What the forward action did, where it is known."""
    late: bool = False
    """The effect was found after the step counted as undone, absent or exempt (S5.5)."""
    redo: bool = False
    """The effect landed while its undo was under way: the undo has to run once more."""
    accepted: bool = False
    """A failure the caller acknowledged, or that a save-point roll-back took back."""
    reply_lost: bool = False
    host_awaited: bool = False
    """What is due for it has waited for its machine for so long that people are told (S1.3)."""
    person: str = ""
    """Who undid or exempted the step by hand."""
    owner: str = ""
    parts: tuple[Part, ...] | None = ()
    """The undo in the order in which it runs; None: it cannot be built."""
    registered: tuple[PartSpec, ...] = ()
    main: tuple[PartSpec, ...] | None = ()
    capture: JsonValue = field(default=None, compare=False)
    image: JsonValue = field(default=None, compare=False)
    """What was there right after the step, where its capture is made again; None: not known."""
    after: JsonValue = field(default=None, compare=False)
    result: JsonValue = field(default=None, compare=False)
    results: JsonObject = field(default_factory=dict[str, JsonValue], compare=False)
    """See `StepAdopted`."""
    kept: JsonValue = field(default=None, compare=False)
    """What its tool needs besides the result to give the same answer once more."""
    error: str = field(default="", compare=False)
    build_error: str = field(default="", compare=False)
    note: str = field(default="", compare=False)

    @property
    def kind(self) -> Kind:
        """The kind of the tool, as frozen at the intent."""
        return self.plan.kind

    @property
    def tool(self) -> str:
        """The tool's name in the config."""
        return self.plan.tool

    @property
    def settled(self) -> bool:
        """Whether a roll-back has nothing left to do here."""
        return self.state in SETTLED_STEPS and not self.late

    @property
    def next_part(self) -> Part | None:
        """The first undo part that is not done, in running order."""
        return next((part for part in self.parts or () if part.state is not PartState.DONE), None)

    @property
    def may_undo_blind(self) -> bool:
        """Whether an in-doubt step may be undone without knowing whether it landed (S6.8).

        A guard looks before anything is sent.
        """
        return (self.plan.safe_if_absent or self.plan.guarded) and self.end_known and bool(self.parts)

    @property
    def undo_in_flight(self) -> bool:
        """Whether an undo attempt was sent and has not ended."""
        return any(part.running for part in self.parts or ())

    @property
    def undo_overdue(self) -> bool:
        """Whether an undo of it runs past its hard deadline."""
        return any(part.overdue for part in self.parts or ())

    @property
    def unbuilt(self) -> bool:
        """Whether there is no undo to send: it could not be bound, or its next part not be filled in."""
        part = self.next_part
        return not self.parts or (part is not None and part.item is ItemKind.CANNOT_BUILD)

    @property
    def loose(self) -> bool:
        """Whether the step may be due for something, or wait for a person: it is neither settled nor plainly done."""
        if self.running or self.overdue or self.late or self.host_awaited:
            return True
        if self.state is not StepState.SUCCEEDED:
            return not self.settled
        part = self.next_part
        untouched = part is None or part.state is PartState.PENDING
        return not untouched or self.parts is None or (self.kind is Kind.COMPENSABLE and not self.parts)

    @property
    def resendable(self) -> bool:
        """Whether it may be sent once more: none runs, no person is asked yet, and doing it twice is safe (S3.2)."""
        return not self.running and not self.exhausted and (self.plan.idempotent or not self.unknown_attempts)

    @property
    def probe_due(self) -> bool:
        """Whether a probe could still settle the doubt."""
        return self.state is StepState.IN_DOUBT and self.plan.has_probe and not self.probes_ended

    @property
    def probed_now(self) -> bool:
        """Whether it is asked now: of a call elsewhere also while it counts as running, for nobody hears its answer."""
        return self.probe_due and (not self.running or self.plan.outlives_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A mark: an abort back to it undoes the steps whose intent came later."""

    name: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAbort:
    """An abort that waits for a pivot's outcome (S7.1)."""

    cause: str
    target: int
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """Steps of a committed saga that another one undoes, or has undone (S13)."""

    revert: str
    """Id of that saga, which tells how far it has come."""
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saga:
    """A set of steps that are either all kept or all undone (Garcia-Molina & Salem 1987)."""

    id: str
    seq: int = 0
    """Number of events folded in; 0: not opened."""
    phase: Phase = Phase.ACTIVE
    realm: str = ""
    caller: str = ""
    opener: str = ""
    conversation: str = ""
    key: str = ""
    purpose: str = ""
    implicit: bool = False
    on_error: OnError = OnError.ABORT
    on_undo_failure: OnUndoFailure = OnUndoFailure.HALT
    driver: str = ""
    target: int = WHOLE_SAGA
    cause: str = ""
    """Why it is being undone, or was."""
    reason: str = ""
    aborted_by: str = ""
    steps: Vector[Step] = field(default_factory=Vector[Step])
    undo_stack: Vector[int] = field(default_factory=Vector[int])
    """Numbers of steps that left `intended`, by order key; settled ones are dropped from its top."""
    succeeded: tuple[tuple[str, Vector[int]], ...] = ()
    """By tool: numbers of its steps that succeeded, by order key; others are dropped from the top of each (S9.3)."""
    unended: int = 0
    """Steps in `intended`."""
    in_doubt: int = 0
    """Steps in `in_doubt`."""
    running: int = 0
    """Steps whose call has not ended, the overdue ones aside."""
    loose: tuple[int, ...] = ()
    """Numbers of the steps that are `loose`, ascending; everything else needs no look (S2.4)."""
    unheard: tuple[int, ...] = ()
    """Numbers of the steps whose answer is known not to have reached the caller, ascending (S8.1)."""
    pivot: int = 0
    """Number of the pivot that has succeeded, else of the one that is unsettled; 0: none."""
    undoing: int = 0
    """Number of the step whose undo is in flight; 0: none. There is never more than one (S5.2)."""
    savepoints: tuple[Savepoint, ...] = ()
    abort_wanted: WantedAbort | None = None
    acknowledged: Acknowledged = ()
    violations: tuple[str, ...] = ()
    """Invariants violated after the pivot and not yet exempted."""
    violated_by: int = 0
    """Number of the step with whose result an invariant did not hold."""
    idle: bool = False
    alerts_parked: bool = False
    """Its alerts are kept back until a person says so."""
    committed_seq: int = field(default=0, compare=False)
    """`seq` of the event that committed it; 0: it is not."""
    reverts: str = ""
    """The committed saga whose steps it undoes; empty: it does work of its own."""
    reverted: tuple[Reverted, ...] = ()
    """By which sagas its own steps are undone after its commit."""
    has_secrets: bool = False
    """Calls of it have arguments that are shown to nobody."""
    wiped: bool = False
    """Its values are gone, so nothing of it can be undone any more (S11.5)."""

    @property
    def opened(self) -> bool:
        """Whether the log holds this saga at all."""
        return self.seq > 0

    @property
    def next_seq(self) -> int:
        """`seq` of the event that is being applied, or comes next."""
        return self.seq + 1

    @property
    def final(self) -> bool:
        """Whether the phase is final (but see S5.5)."""
        return self.phase in FINAL_PHASES

    @property
    def pivot_passed(self) -> bool:
        """Whether the point of no return has succeeded."""
        # A pivot that was exempted after its success (its thread never ended) is still the point of no return.
        return self.pivot > 0 and self.step(self.pivot).state in {StepState.SUCCEEDED, StepState.EXEMPT}

    @property
    def pivot_unsettled(self) -> bool:
        """Whether a pivot is intended or in doubt."""
        return self.pivot > 0 and not self.pivot_passed

    def step(self, number: int) -> Step:
        """The step `number`, counted from 1."""
        return self.steps[number - 1]

    def find_step(self, number: int) -> Step | None:
        """The step `number`, or None where there is no such step."""
        return self.steps[number - 1] if 0 < number <= len(self.steps) else None

    def key_of(self, number: int) -> str:
        """The idempotency key of step `number` (S6.3)."""
        return step_key(self.realm, *self.origin(number), self.step(number).plan.nonce)

    def origin(self, number: int) -> tuple[str, int]:
        """The saga in which step `number` was done, and its number there: what its keys are made of (S6.3)."""
        step = self.find_step(number)
        return (self.id, number) if step is None or not step.undoes else (self.reverts, step.undoes)

    def handed_to(self, number: int) -> str | None:
        """Id of the saga that undoes step `number` after the commit (S13); None: no saga does."""
        return next((other.revert for other in self.reverted if number in other.steps), None)

    @property
    def loose_steps(self) -> tuple[Step, ...]:
        """The steps that may be due for something, or wait for a person."""
        return tuple(self.steps[number - 1] for number in self.loose)

    def savepoint(self, name: str) -> Savepoint | None:
        """The mark `name`, or None."""
        return next((mark for mark in self.savepoints if mark.name == name), None)
