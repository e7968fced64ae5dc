"""Events of a step's forward action."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TypeAlias

from saga_mcp.domain.frozen import PAYLOAD, PartSpec
from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Kind, SettledBy


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What a step is, as frozen at its intent (S6.1); also what an approval is bound to (S9.1)."""

    tool: str
    """Name of the tool in the config, e.g. `travel.charge`."""
    kind: Kind
    pair_hash: str = ""
    target_id: str = ""
    host: str = ""
    """Host id of the machine whose processes alone probe and undo it (S1.3); empty: any, or an older version did not
    say."""
    idempotent: bool = False
    has_probe: bool = False
    safe_if_absent: bool = False
    guarded: bool = False
    """Before its undo the world is looked at (S6.7)."""
    outlives_us: bool = False
    """A call of it may go on where this process has ended: it runs in a server that is not our child (S3.3)."""
    looks_after: bool = False
    """Something is read right after its success, and only then has it ended."""
    nonce: str = field(default="", compare=False)
    """Random, and part of the step's key (S6.3): a log that was restored from an older copy numbers its next steps as
    the lost ones were, and a tool that takes each key once would answer with what it did then."""
    step_key: str = ""
    """The agent's name for the call (S8.2)."""
    call_id: str = ""
    """The client's own id of the call, where it sends one (S8.3)."""
    caller: str = field(default="", compare=False)
    """Who made the call, where callers are told apart: in a team's saga several do."""
    offered: str = field(default="", compare=False)
    """The name under which the agent called `tool`; empty: an older version did not say."""
    resource: str = field(default="", compare=False, metadata=PAYLOAD)
    """What it works on, and its saga holds to its end (S9.2); it is made of arguments. Empty: nothing."""
    secret: tuple[str, ...] = ()
    """Names of the arguments that are shown to nobody."""
    args: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)
    """All but those that are `sealed`."""
    sealed: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)
    """Secret arguments that nothing needs after the call: the HMAC of each, by which equal calls are known (S11.4)."""
    args_digest: str = field(default="", compare=False, metadata=PAYLOAD)
    """Of the canonical `args`: worked out once, compared at every later call (S11.4). It is hidden and wiped with
    them, so it tells nobody else about a value that is easy to guess."""

    def __post_init__(self) -> None:
        """Work out the digest, where the log did not bring it along."""
        if not self.args_digest:
            object.__setattr__(self, "args_digest", _digest(self.args, self.sealed))

    def same_call(self, other: StepPlan) -> bool:
        """Whether both call the same tool with equal arguments: same structure and values, in any order of keys."""
        return self.tool == other.tool and self.args_digest == other.args_digest


def _digest(args: JsonObject, sealed: JsonObject) -> str:
    # The structure is made canonical, values are left alone (CASES C10): 1, 1.0 and "1" are three calls.
    content = {"args": args, "sealed": sealed} if sealed else args
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(canonical.encode("ascii"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAwaitingApproval:
    """A call was stored and a person is asked; nothing was sent."""

    step: int
    plan: StepPlan
    expires_at: float = 0.0
    """Wall clock after which nobody may allow it any more, in seconds since the epoch."""
    seen: int = 0
    """As of an intent: to ask is to go on from every reply that came before."""
    received: tuple[int, ...] = ()
    """As of an intent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepApproved:
    """A person allowed exactly this stored call, once."""

    step: int
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCancelled:
    """A stored call ended before its intent: rejected, expired or aborted."""

    step: int
    why: str
    """One of `Cancelled`."""
    by: str = ""
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepIntended:
    """The first attempt is about to be sent: durable before the first byte (DESIGN.md rule 1)."""

    step: int
    plan: StepPlan
    owner: str
    seen: int = 0
    """The saga's `seq` up to which the caller had been sent every reply when this call arrived (S8.1)."""
    received: tuple[int, ...] = ()
    """Steps whose lost answer has reached the caller after all."""
    capture: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAdopted:
    """A step of a committed saga was taken over, with all that its undo needs as it was frozen there (S13, S6.1)."""

    step: int
    undoes: int
    """Its number in the saga that is reverted: keys are made of that one and of this number."""
    plan: StepPlan
    intent_seq: int
    """`seq` of its intent in that saga."""
    order: int
    """Its order key in that saga (S5.2)."""
    main: tuple[PartSpec, ...] | None = ()
    """The pair's undo; None: it could not be built."""
    registered: tuple[PartSpec, ...] = ()
    """What its call registered, in that order."""
    results: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)
    """Results of earlier steps that its undo may look at, by tool, as far as these steps are not taken over too."""
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    capture: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    image: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    after: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    result: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttempted:
    """A further attempt is about to be sent, with the same key."""

    step: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttemptEnded:
    """An attempt ended without success, and another may follow (S3.2)."""

    step: int
    effect: Effect
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRegistered:
    """A running call registered the undo of one of its parts (S6.2)."""

    step: int
    part: PartSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSucceeded:
    """The forward action took effect; its undo is bound, or cannot be."""

    step: int
    parts: tuple[PartSpec, ...] | None = ()
    """None: the undo could not be built; `build_error` says why."""
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    result: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    kept: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    """What its tool needs besides the result to give the same answer once more (S8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepObserved:
    """What a step left behind was read, or could not be; with that the step has ended (S6.7)."""

    step: int
    parts: tuple[PartSpec, ...] | None = ()
    """The undo, bound once more with what was read."""
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    image: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    """The capture made again: the after-image. None: there is none, or it could not be read exactly."""
    after: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    """What the pair reads of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """The forward action is known to have had no effect."""

    step: int
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFellInDoubt:
    """The outcome of the forward action is not known (DESIGN.md rule 2)."""

    step: int
    reason: str
    """timeout | error | owner_lost | transport_lost | invalid_answer."""
    running: bool = False
    """The call has not ended: only the wait for it has (S3.3)."""
    end_known: bool = False
    """It answered, or ran in a process proved dead."""
    parts: tuple[PartSpec, ...] | None = ()
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRunEnded:
    """An in-doubt step no longer runs, and its outcome is still unknown."""

    step: int
    end_known: bool
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOverdue:
    """A step that cannot be stopped ran past its hard deadline (S3.3)."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProbesEnded:
    """Probing gave no verdict in the time it has (S4.2)."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettled:
    """A late answer, a probe or a person settled what the step did (S3.6). Legal in every phase."""

    step: int
    landed: bool
    by: SettledBy
    person: str = ""
    parts: tuple[PartSpec, ...] | None = ()
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    result: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    kept: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    """See `StepSucceeded.kept`."""
    image: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    """See `StepObserved`; of a probe that found the effect, which is looked at with it."""
    after: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHostAwaited:
    """What is due for the step has waited for processes of its machine for so long that people are told (S1.3)."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExhausted:
    """A retriable step used up its attempts (S7.2)."""

    step: int
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResumed:
    """A person let a retriable step try again."""

    step: int
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExempted:
    """A named person decided that the step's effect, if any, stays."""

    step: int
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLost:
    """The answer of this step is known not to have reached the caller (S8.1)."""

    step: int


StepEvent: TypeAlias = (
    StepAwaitingApproval
    | StepApproved
    | StepCancelled
    | StepIntended
    | StepAdopted
    | StepAttempted
    | StepAttemptEnded
    | UndoRegistered
    | StepSucceeded
    | StepObserved
    | StepFailed
    | StepFellInDoubt
    | StepRunEnded
    | StepOverdue
    | StepProbesEnded
    | StepSettled
    | StepExhausted
    | StepResumed
    | StepExempted
    | ReplyLost
)
