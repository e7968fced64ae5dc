"""What models read where nothing was done, or where there is no answer: one sentence on what to do next (WORDING.md).

Apart from `wording`, which says how a saga stands: a refusal is about a call, and most are about no saga at all.
"""

from saga_mcp.domain.errors import CommitRefused, SagaQuarantined
from saga_mcp.edge.clean import escape
from saga_mcp.edge.wording import Names
from saga_mcp.engine.port import Relay
from saga_mcp.log.port import Claim

_LONGEST_REFUSAL = 2_000

_IDLES = {
    Claim.HELD: "",
    Claim.AWAITED: (
        "The database of the saga log cannot be reached from this server now. Until it can, calls are refused and "
        "nothing is undone here; what is recorded goes on by itself then, and nothing has to be restarted. Look again "
        "with saga_status in a minute."
    ),
    Claim.LOST: (
        "This server does nothing more: the file that shows other processes that it lives was removed. What is due is "
        "recorded. Tell the user to restart the server; the next one goes on."
    ),
}


def refused(error: Exception, rename: Names) -> str:
    """What a refusal of the engine says; they carry their sentence with them, with tools as the config names them.

    Args:
        error: the refusal.
        rename: puts agents' names in place of the config's, anywhere in a text.
    """
    tail = " Use saga_status, then saga_abort or wait for a person." if isinstance(error, CommitRefused) else ""
    said = escape(rename(str(error)))
    return f"{said if len(said) <= _LONGEST_REFUSAL else f'{said[:_LONGEST_REFUSAL]}...'}{tail}"


def quarantined(error: SagaQuarantined, rename: Names, *, called: bool) -> str:
    """The saga cannot be read, so no intent could be stored.

    Args:
        error: what is the matter.
        rename: as for `refused`.
        called: a governed tool was called; a control tool sends nothing.
    """
    return refused(error, rename) + (" Nothing was sent." if called else "")


def invalid_arguments(problems: tuple[str, ...]) -> str:
    """Arguments that do not fit: nothing happened, and it is no step (S4.1)."""
    return escape(f"Nothing was sent: {'; '.join(problems)}.")


def upstream_down(reason: str, tool: str) -> str:
    """The server behind a tool cannot be reached: nothing happened, and there is nothing to undo for it.

    Args:
        reason: why not.
        tool: as agents see it.
    """
    said = escape(reason)[:_LONGEST_REFUSAL]
    return (
        f"Nothing was sent: the server behind {tool} cannot be reached ({said}). Try once more later, or tell the user."
    )


def unknown_argument(name: str, nearest: str) -> str:
    """One problem of `invalid_arguments`."""
    hint = f' (did you mean "{nearest}"?)' if nearest else ""
    return f'there is no argument "{name}"{hint}'


def log_unavailable(reason: str) -> str:
    """The saga log cannot be used; what it says tells what was not stored and not sent, and what to do."""
    return escape(f"{reason[:1].upper()}{reason[1:]}")


def idles(standing: Claim) -> str:
    """Why this server does nothing that is due now; empty: it does."""
    return _IDLES[standing]


def abort_only_recorded(saga_id: str, why: str) -> str:
    """The answer of an abort that this process does not carry out now, because of what `idles` says."""
    return f"[saga {saga_id} NOT UNDONE YET: the abort is recorded. {why}]"


def not_driven(saga_id: str, reason: str) -> str:
    """The answer of an abort that is recorded, and that nobody can be told to carry out now.

    Args:
        saga_id: which saga.
        reason: why not.
    """
    return (
        f"[saga {saga_id} NOT UNDONE YET: the abort is recorded, and this server cannot see to it now "
        f"({escape(reason)[:_LONGEST_REFUSAL]}). It goes on by itself where that can be done: do not undo anything "
        "yourself. saga_status tells the end.]"
    )


def without_answer(code: str, number: int, tool: str, *, open_: bool = True) -> str:
    """The first sentence of a call that has no answer of its tool.

    Args:
        code: why not.
        number: of the step.
        tool: as agents see it.
        open_: its saga is open, and no person is waited for: else what is said of the saga says what to do.
    """
    if code == "still_running":
        return f"Not an error: {escape(tool)} is still running. Do not call it again; saga_status shows its result."
    if code == "outcome_unknown":
        first = f"Outcome of step {number} {escape(tool)} is unknown: it may have happened. Do not call it again."
        return f"{first} Use saga_status in 30 s; then saga_abort, or ask the user." if open_ else first
    if code == "approval_needed":
        return (
            f"Nothing was sent yet: a person has to allow step {number} {escape(tool)}. The call is stored and runs "
            "once it is allowed. Tell the user and do not repeat it now. The same call later, or saga_status, tells "
            "what became of it."
        )
    return f"Step {number} {escape(tool)} has no answer ({code}). Do not call it again; use saga_status."


_IN_CLIENT = {
    Relay.OPEN: "The question is open in this client too.",
    Relay.UNANSWERED: "Nobody answered it in this client, which is not asked again.",
    Relay.TOO_LATE: "What was answered in this client came too late: the question was settled before, and that answer "
    "changed nothing.",
}


def in_client(relay: Relay) -> str:
    """What became of a question in the client of the call; empty where its answer says that."""
    return _IN_CLIENT.get(relay, "")


NOT_ASKED = (
    "it brings an answer to a question that this server does not ask, or not any more. The answer changed nothing; "
    "saga_status tells what waits for a person"
)
"""A problem of `invalid_arguments`."""


def internal_error(reference: str) -> str:
    """A bug of ours."""
    return (
        f"Internal error of the saga server (reference {reference}). Whether anything was sent is not known. Do not "
        "call it again; use saga_status, or tell the user."
    )
