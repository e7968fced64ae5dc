"""What an author may say about a tool besides its code: the traits, their defaults and their units.

They are the same words as the keys of `saga.toml`, so that a pair may be declared in either place. Here, and not in the
server, because the author types them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

Kind = Literal["read_only", "compensable", "pivot", "retriable"]
"""What a tool does to the world (Richardson 2018; Microsoft Architecture Center)."""

ErrorMeans = Literal["unknown", "no_effect"]
"""What an exception of a forward action proves."""

OnRepeat = Literal["run", "replay", "refuse"]
"""What an equal call means once the first answer was delivered."""


World = Literal["as_left", "as_before", "changed"]
"""How a guard finds the world before an undo: as the step left it, as it was before the step, or neither."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how long apart, an attempt is repeated.

    Attributes:
        attempts: How many attempts in all, the first included.
        first_delay_s: Longest wait before the second attempt; doubles from there, with full jitter.
        max_delay_s: What the wait never exceeds.

    Raises:
        ValueError: It cannot be followed.
    """

    attempts: int = 1
    first_delay_s: float = 0.5
    max_delay_s: float = 20.0

    def __post_init__(self) -> None:
        """Refuse what cannot be followed where it is written."""
        if self.attempts < 1 or not 0 <= self.first_delay_s <= self.max_delay_s < math.inf:
            message = f"{self} cannot be followed: use attempts >= 1 and 0 <= first_delay_s <= max_delay_s"
            raise ValueError(message)

    def delay_s(self, attempts_made: int) -> float:
        """Return the longest wait before the next attempt, in seconds; the server draws between zero and this.

        Args:
            attempts_made: How many attempts were made, at least 1.
        """
        doubled: float = self.first_delay_s * 2.0 ** min(attempts_made - 1, 62)
        return min(doubled, self.max_delay_s)


UNDO_RETRY = Retry(attempts=8, first_delay_s=1.0, max_delay_s=300.0)
"""The usual one of undos."""


def usual_retry(kind: Kind) -> Retry:
    """Return how a failed call is attempted again where nobody has said: what has to succeed is, as an undo is."""
    return UNDO_RETRY if kind == "retriable" else Retry()


class TraitArguments(TypedDict, total=False):
    """The keyword arguments of `ToolRegistry.tool`; `Traits` has their meaning and defaults."""

    name: str
    title: str
    kind: Kind
    timeout_s: float
    hard_deadline_s: float | None
    settle_s: float
    retry: Retry
    idempotent: bool
    error_means: ErrorMeans
    on_repeat: OnRepeat
    approval: bool
    resource: str
    secret: Sequence[str]
    guard: Literal["unchanged"] | None
    ignore_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The traits of one tool.

    Attributes:
        kind: What it does to the world.
        timeout_s: How long a call is waited for; the call itself goes on.
        hard_deadline_s: How long after its start a call counts as running; ten times `timeout_s` unless given.
        settle_s: How long after the end of a call a probe's "absent" is believed.
        retry: How a failed forward action is attempted again; None: not at all, of a retriable tool as an undo is.
        idempotent: An attempt of unknown outcome may be sent again with the same key.
        error_means: What an exception proves, other than `NoEffect`, which is always without effect.
        on_repeat: What an equal call means after the first one's answer was delivered.
        approval: A person has to allow each call before it is sent; which calls, the config may say instead.
        resource: What a call works on, a text with `${...}` over `args`, such as `"customer:${args.id}"`. Its saga
            holds that to its end, and calls of others that work on the same are refused. It names no secret.
        secret: Names of parameters that are shown to nobody. Those that neither its undo nor its capture, guard or
            probe takes by name are not stored either: `undo.args` does not have them.
        guard: `"unchanged"`: its capture is made again after the step and before the undo. Where the world is as it was
            before the step, nothing is undone; where it is neither that nor as the step left it, a person decides.
        ignore_order: That guard compares lists as bags.
    """

    kind: Kind = "compensable"
    timeout_s: float = 30.0
    hard_deadline_s: float | None = None
    settle_s: float = 5.0
    retry: Retry | None = None
    idempotent: bool = False
    error_means: ErrorMeans = "unknown"
    on_repeat: OnRepeat = "run"
    approval: bool = False
    resource: str = ""
    secret: Sequence[str] = ()
    guard: Literal["unchanged"] | None = None
    ignore_order: bool = False

    @property
    def deadline_s(self) -> float:
        """Seconds after its start for which a call counts as running."""
        return 10 * self.timeout_s if self.hard_deadline_s is None else self.hard_deadline_s


class UndoArguments(TypedDict, total=False):
    """The keyword arguments of `ToolRegistry.undoes` and `ToolRegistry.part`; `UndoTraits` has their defaults."""

    idempotent: bool
    safe_if_absent: bool
    needs_result: bool
    retry: Retry
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoTraits:
    """The traits of one undo.

    Attributes:
        idempotent: An attempt of unknown outcome may be sent again with the same key.
        safe_if_absent: It is harmless where the forward action never took effect.
        needs_result: It must not be called without the forward action's result.
        retry: Its attempts; when they are used up it is a dead letter.
        timeout_s: How long an attempt is waited for.
    """

    idempotent: bool = True
    safe_if_absent: bool = True
    needs_result: bool = False
    retry: Retry = UNDO_RETRY
    timeout_s: float = 30.0
