"""What can go wrong with a saga.

SagaError
├─ IllegalTransition      an event does not fit the state: a bug or a damaged log, never a user's fault
├─ Refused                the machine said no, nothing was changed; `code` is what the agent sees
│  ├─ SagaNotFound
│  │  └─ SagaPruned    its record was removed
│  ├─ SagaNotYours        an operator ends sagas of others, and adds nothing to them
│  ├─ LimitReached        this caller has as much going on as the config allows
│  ├─ SagaClosed          committed
│  ├─ SagaAborted         compensating or compensated
│  ├─ SavepointNotFound
│  ├─ StepUnsettled       a step is running or in doubt
│  ├─ CommitRefused       something has to be settled first
│  ├─ CommitReserved      it is for whoever opened the team's saga to commit it
│  ├─ PivotPassed         too late to abort
│  ├─ RevertRefused       what was committed cannot be undone any more, or not by whoever asks
│  ├─ KindRefused         this kind of tool may not join at this point
│  ├─ KeyReused           the step key belongs to a call with other arguments
│  ├─ CaptureFailed       what is there now could not be saved, so the call could not be undone
│  ├─ ResourceHeld        another saga works on the same thing
│  ├─ ToolPaused          a person has stopped all calls of the tool
│  ├─ DrivenOtherwise     another driver brings the realm's sagas to rest
│  ├─ RepeatRefused       the call equals an earlier one, and its tool must not run twice
│  └─ ItemRefused         this verb does not fit what waits there
├─ DriverUnavailable      what brings sagas to rest cannot be told, or is not installed
└─ LogError
   ├─ LogConflict         another process appended first, again and again
   ├─ LogUnavailable      nothing was stored, so nothing was sent
   ├─ LogUnsettled        it is not known whether it was stored
   └─ SagaQuarantined     this saga's events cannot be read; all others go on

A refusal comes before anything is sent, so it may say that nothing was. A quarantine can also be met afterwards, when
an outcome is to be stored: it says what is the matter, and whoever called says what that means for the call.
"""

from __future__ import annotations

from typing import ClassVar


class SagaError(Exception):
    """Base of every error this package raises on purpose."""


class IllegalTransition(SagaError):
    """The event is not allowed in this state; the saga is unchanged."""


class Refused(SagaError):
    """The state machine said no. Nothing was stored and nothing was sent."""

    code: ClassVar[str] = "refused"


class DriverUnavailable(SagaError):
    """What brings sagas to rest cannot be told what to do now. What is recorded is done once it can."""

    code: ClassVar[str] = "driver_unavailable"


class DrivenOtherwise(Refused):
    """Another driver brings the sagas of this realm to rest."""

    code: ClassVar[str] = "driver_unavailable"

    def __init__(self, realm: str, driver: str) -> None:
        self.driver = driver
        super().__init__(
            f'The sagas of realm {realm} are driven by "{driver}": this process drives none. Nothing was changed. '
            f"`saga-mcp driver` shows it, and `saga-mcp driver set` switches."
        )


class SagaNotFound(Refused):
    """No such saga of this caller."""

    code: ClassVar[str] = "saga_not_found"

    def __init__(self, saga_id: str) -> None:
        self.saga_id = saga_id
        super().__init__(
            f'No saga "{saga_id}" of yours. Nothing was sent. Use the id of an earlier reply, or saga_begin.'
        )


class SagaPruned(SagaNotFound):
    """The saga ended long ago, and its record was removed.

    Args:
        saga_id: Which.
        realm: Whose; nobody else is told.
        end: How it ended, and when, in words.
        pruned: When it was removed, in words.
    """

    code: ClassVar[str] = "saga_pruned"

    def __init__(self, saga_id: str, realm: str, end: str, pruned: str) -> None:
        super().__init__(saga_id)
        self.realm = realm
        message = (
            f"Saga {saga_id} ended ({end}), and its record was pruned on {pruned}: nothing more can be said of it or "
            "done about it. Nothing was sent."
        )
        self.args = (message,)

    def as_told_to(self, realm: str) -> SagaNotFound:
        """What somebody of a realm is told: that it was there at all only if it was theirs."""
        return self if self.realm == realm else SagaNotFound(self.saga_id)


class SagaNotYours(Refused):
    """An operator may look at the saga and end it, and nothing more."""

    code: ClassVar[str] = "saga_not_yours"

    def __init__(self, saga_id: str) -> None:
        self.saga_id = saga_id
        super().__init__(
            f"Saga {saga_id} is somebody else's: an operator looks at it and ends it, with saga_commit or saga_abort, "
            "and adds nothing to it. Nothing was sent."
        )


class LimitReached(Refused):
    """A caller has as much going on, or sends as much, as `[limits]` allows."""

    code: ClassVar[str] = "limit_reached"

    def __init__(self, what: str, move: str) -> None:
        super().__init__(f"Nothing was sent: {what}. {move}")


class SagaClosed(Refused):
    """The saga is committed."""

    code: ClassVar[str] = "saga_closed"

    def __init__(self, saga_id: str) -> None:
        self.saga_id = saga_id
        super().__init__(f"Saga {saga_id} is committed and closed. Nothing was sent. Open a new one with saga_begin.")


class SagaAborted(Refused):
    """The saga is being undone, or has been."""

    code: ClassVar[str] = "saga_aborted"

    def __init__(self, saga_id: str, cause: str, waiting: tuple[str, ...] = ()) -> None:
        self.saga_id = saga_id
        self.cause = cause
        self.waiting = waiting
        """Names of the items that wait for a person; empty: the rollback is done, or goes on."""
        if waiting:
            state = f" and is not fully undone: {', '.join(waiting)} waits for a person"
            move = "Do not start over: tell the user and stop."
        else:
            state = "; its steps are undone or being undone"
            move = "Start over with saga_begin, or tell the user."
        super().__init__(f"Saga {saga_id} was aborted (by {cause}){state}. Nothing was sent. {move}")


class SavepointNotFound(Refused):
    """The saga has no mark of this name."""

    code: ClassVar[str] = "savepoint_not_found"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        marks = ", ".join(known) or "none"
        super().__init__(f'No save-point "{name}". Nothing was undone. Save-points of this saga: {marks}.')


class StepUnsettled(Refused):
    """A step is running or in doubt, and this has to wait for it."""

    code: ClassVar[str] = "step_unsettled"

    def __init__(self, message: str, steps: tuple[int, ...] = ()) -> None:
        self.steps = steps
        super().__init__(message)


class CommitRefused(Refused):
    """The saga cannot be kept as it stands."""

    code: ClassVar[str] = "commit_refused"

    def __init__(self, reasons: tuple[str, ...], steps: tuple[int, ...] = ()) -> None:
        self.reasons = reasons
        self.steps = steps
        super().__init__(f"Not committed: {'; '.join(reasons)}.")


class CommitReserved(Refused):
    """A team's saga that only whoever opened it commits."""

    code: ClassVar[str] = "commit_refused"

    def __init__(self, saga_id: str, opener: str) -> None:
        self.saga_id = saga_id
        super().__init__(
            f"Not committed: only {opener}, who opened saga {saga_id} for the team, commits it. Tell the user."
        )


class PivotPassed(Refused):
    """The saga can no longer be aborted."""

    code: ClassVar[str] = "pivot_passed"

    def __init__(self, saga_id: str, pivot_tool: str) -> None:
        self.saga_id = saga_id
        self.pivot_tool = pivot_tool
        super().__init__(
            f"Saga {saga_id} cannot be aborted: {pivot_tool} already succeeded and cannot be undone. "
            "Nothing was undone. Finish the task, then saga_commit."
        )


class RevertRefused(Refused):
    """What was committed cannot be undone any more, or not so (S13)."""

    code: ClassVar[str] = "revert_refused"

    def __init__(self, saga_id: str, why: str) -> None:
        self.saga_id = saga_id
        super().__init__(f"Nothing was undone: saga {saga_id} cannot be reverted: {why}.")


class KindRefused(Refused):
    """A tool of this kind may not join the saga at this point."""

    code: ClassVar[str] = "kind_refused"


class KeyReused(Refused):
    """A step key names one call: this one has other arguments."""

    code: ClassVar[str] = "key_reused"

    def __init__(self, step_key: str, step: int) -> None:
        self.step_key = step_key
        self.step = step
        super().__init__(
            f'step_key "{step_key}" already belongs to step {step}, which has other arguments. Nothing was sent. '
            "Use a new step_key for a new call."
        )


class RepeatRefused(Refused):
    """The call equals one whose answer the caller has, and the tool's `on_repeat` refuses that."""

    code: ClassVar[str] = "repeat_refused"

    def __init__(self, tool: str, step: int) -> None:
        self.tool = tool
        self.step = step
        super().__init__(
            f"Nothing was sent: step {step} is the same call of {tool}, and it already succeeded. "
            "Use saga_status to see it. If a second one is really meant, tell the user."
        )


class CaptureFailed(Refused):
    """What is there now could not be read, or not exactly: the call could not be undone (S6.6)."""

    code: ClassVar[str] = "capture_failed"

    def __init__(self, tool: str, reason: str) -> None:
        self.tool = tool
        super().__init__(
            f"Nothing was sent: what {tool} would change could not be saved exactly ({reason}), so the call could not "
            "be undone."
        )


class ResourceHeld(Refused):
    """Another call works on the same thing right now (S5.3), or another saga holds it to its end (S9.2).

    Args:
        tool: What was to be called.
        holder: The saga that has it; empty: one that whoever is told may not know of.
        resource: What it holds to its end; empty: a call of it works on it just now.
        waits: Only a person can end that.
    """

    code: ClassVar[str] = "resource_held"

    def __init__(self, tool: str, holder: str, resource: str = "", *, waits: bool = False) -> None:
        self.tool = tool
        self.holder = holder
        self.resource = resource
        self.waits = waits
        who = f"saga {holder}" if holder else "a saga of somebody else"
        if not resource:
            text = f"{who} is working on the same thing as this call of {tool}. Try again later."
        elif waits:
            text = (
                f'{who} has changed "{resource}", and a person has to settle what is left of it '
                "(`saga-mcp attention`). Tell the user."
            )
        elif not holder:
            text = f'{who} holds "{resource}" until it is committed or undone. Try again later, or tell the user.'
        else:
            text = (
                f'{who} holds "{resource}" until it is committed or undone. If it is yours, pass its saga_id, '
                "or end it with saga_commit or saga_abort. Otherwise try again later, or tell the user."
            )
        super().__init__(f"Nothing was sent: {text}")

    def as_told_to_others(self) -> ResourceHeld:
        """The same without the name of the saga, for whom that one does not exist."""
        return ResourceHeld(self.tool, "", self.resource, waits=self.waits)


class ToolPaused(Refused):
    """A person has stopped all calls of the tool for now."""

    code: ClassVar[str] = "tool_paused"

    def __init__(self, tool: str, by: str, note: str) -> None:
        self.tool = tool
        said = f' They say: "{note}".' if note else ""
        super().__init__(
            f"Nothing was sent: {by} has paused {tool}.{said} Do not call it again now: go on without it, or tell the "
            "user."
        )


class ApprovalRejected(Refused):
    """A person has forbidden this very call in this saga (S9.1)."""

    code: ClassVar[str] = "approval_rejected"

    def __init__(self, step: int, tool: str, note: str) -> None:
        self.step = step
        self.tool = tool
        said = f' They say: "{note}".' if note else ""
        super().__init__(
            f"Nothing was sent: a person did not allow this call of {tool} (step {step}).{said} Do not call it again: "
            "go on without it, or tell the user."
        )


class ItemRefused(Refused):
    """The verb does not fit what waits at this step."""

    code: ClassVar[str] = "item_refused"


class LogError(SagaError):
    """The saga log could not do what was asked."""


class LogConflict(LogError):
    """Other processes kept appending to this saga first; nothing was stored."""


class LogUnavailable(LogError):
    """The saga log cannot be written, so nothing was stored and nothing was sent."""

    code: ClassVar[str] = "log_unavailable"


class LogUnsettled(LogError):
    """The saga log did not say whether it stored an append, and cannot be asked now.

    Never to be taken for `LogUnavailable`: an intent that was stored after all is part of the saga.
    """


class SagaQuarantined(LogError):
    """The events of this saga cannot be read by this version. All other sagas go on (S10.3).

    Says nothing about what was sent.
    """

    code: ClassVar[str] = "saga_quarantined"

    def __init__(self, saga_id: str, reason: str) -> None:
        self.saga_id = saga_id
        self.reason = reason
        super().__init__(f"Saga {saga_id} is quarantined: {reason}. Tell the user; `saga-mcp show {saga_id}`.")
