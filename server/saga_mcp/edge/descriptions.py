"""What models read before they call anything: the instructions, and what each tool and argument is for (WORDING.md).

Written, as all that models read (`wording`, `refusals`), to stop what they are known to do. The text of a tool of
somebody else is its own; it gains one line.
"""

from collections.abc import Collection

from saga_mcp.domain.values import Kind, PartAction

INSTRUCTIONS = (
    "This server groups tool calls in sagas: all kept, or all undone. 1. Begin a task with saga_begin, alone. Pass its"
    " saga_id to every call of the task, parallel calls too. 2. When the task is finished and checked, call "
    "saga_commit. Until then everything is provisional. 3. If it cannot be finished, call saga_abort. Never undo steps"
    " yourself with other tools. 4. If a reply says a saga was undone, its id is closed. Do not repeat the same call: "
    "fix the cause and start over once, or tell the user. 5. If a reply says unknown or still running, do not call "
    "again; use saga_status. 6. If a person is needed, tell the user and stop."
)

BEGIN = (
    "Open a saga for one task and get its saga_id. Call it first and alone; pass the id to every call of the task. It "
    "stays open until saga_commit (keep all) or saga_abort (undo all)."
)
COMMIT = (
    "Keep all steps. Call once, when the whole task is done and checked. Repeating is harmless. A refusal says what to "
    "settle first."
)
ABORT = (
    "Undo the steps, last first; the server does it. Repeating is harmless. to_savepoint undoes only what came after "
    "the mark and keeps the saga open."
)
STATUS = (
    "What happened, what an abort would undo, what you may do next. Use it after unknown, still running or being "
    "undone. Without saga_id: your open sagas."
)
SAVEPOINT = (
    "Set a mark in a saga. saga_abort with to_savepoint undoes only what came after it. Setting it again moves it."
)
REVERT = (
    "Undo a committed saga, last step first; the server does it, in a saga of its own. Only when the user asks for it. "
    "What was changed since is never overwritten: a person is asked. A refusal says who can do it."
)

SAGA_ID = "id from saga_begin"
STEP_KEY = "your own name for this call; repeat it to get its result again instead of a second call"
PURPOSE = "the task in a few words"
BEGIN_KEY = "the same key gives the same saga again"
BEGIN_TEAM = "one of your teams: its members can work on this saga too"
ACCEPT_FAILED = "numbers of failed steps that may stay undone"
REASON = "why, for the record"
TO_SAVEPOINT = "undo only what came after this mark"
AFTER_STEP = "list the steps after this number"
REVERTED_ID = "id of the committed saga"
SAVEPOINT_NAME = "name of the mark"

_UNDOABLE = "Undoable until saga_commit."
_NO_RETURN = "Point of no return: cannot be undone."
_PERSON = "Undo needs a person."
_LEFT = "An abort leaves what it did in place."
_ASKS = "A person has to allow each call."
_MAY_ASK = "A person has to allow some calls."
_FORWARD = "Cannot be undone; only after the point of no return."


def kind_line(kind: Kind, undo: Collection[PartAction], not_restored: str = "", *, approval: str | bool = False) -> str:
    """The line that a tool's description gains; never the undo tool's name, which would invite undoing by hand.

    Args:
        kind: of the tool.
        undo: what its undo consists of.
        not_restored: what its undo does not bring back.
        approval: whether, or when, a person has to allow a call of it.
    """
    line = _kind_words(kind, undo)
    if line and approval:
        line = f"{line} {_ASKS if approval is True else _MAY_ASK}"
    return f"{line} Not restored: {not_restored}." if line and not_restored else line


def _kind_words(kind: Kind, undo: Collection[PartAction]) -> str:
    match kind:
        case Kind.COMPENSABLE if PartAction.MANUAL in undo:
            return _PERSON
        case Kind.COMPENSABLE:
            return _LEFT if undo and set(undo) == {PartAction.LEAVE} else _UNDOABLE
        case Kind.PIVOT:
            return _NO_RETURN
        case Kind.RETRIABLE:
            return _FORWARD
        case Kind.READ_ONLY:
            return ""
