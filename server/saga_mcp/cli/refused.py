"""What was refused, for a person on the command line: the next move is a command, not a tool of an agent's."""

from __future__ import annotations

import re
from typing import Final

from saga_mcp.domain.errors import Refused, ResourceHeld, SagaAborted, SagaClosed, ToolPaused

_IN_COMMANDS: Final = (
    # Whole moves of an agent first; then the single tools that texts for agents name.
    ("Open a new one with saga_begin.", ""),
    ("Start over with saga_begin, or tell the user.", ""),
    ("Finish the task, then saga_commit.", "It can only be finished: `saga-mcp show {id}`, `saga-mcp commit {id}`."),
    ("Use saga_status, then saga_abort or wait for a person.", "See `saga-mcp show {id}` and `saga-mcp attention`."),
    ("Do not start over: tell the user and stop.", "See `saga-mcp attention`."),
    ("If a second one is really meant, tell the user.", ""),
    ("Tell the user.", ""),
    (", or tell the user.", "."),
)
_TOOL: Final = re.compile(r"\bsaga_(begin|commit|abort|status|savepoint|revert)\b")
_COMMANDS: Final = {"commit": "commit", "abort": "abort", "status": "show", "revert": "revert"}


def for_people(refused: Refused) -> str:
    """Return the words of a refusal as a person acts on them; nothing of what happened is said in another way."""
    match refused:
        case SagaAborted(saga_id=saga_id, waiting=waiting):
            state = f" and is not fully undone: {', '.join(waiting)} waits" if waiting else " and is or will be undone"
            move = "`saga-mcp attention`" if waiting else f"`saga-mcp show {saga_id}`"
            by = "its agent" if refused.cause == "saga_abort" else refused.cause
            return f"Saga {saga_id} was aborted (by {by}){state}. Nothing was changed. See {move}."
        case SagaClosed(saga_id=saga_id):
            return (
                f"Saga {saga_id} is committed. Nothing was changed. See `saga-mcp show {saga_id}`; what it did can be "
                f"undone with `saga-mcp revert {saga_id}`."
            )
        case ResourceHeld(holder=holder, waits=False) if holder:
            held = f' "{refused.resource}"' if refused.resource else " what this works on"
            return (
                f"Nothing was sent: saga {holder} holds{held} until it is committed or undone. See `saga-mcp show "
                f"{holder}`; end it with `saga-mcp commit {holder}` or `saga-mcp abort {holder}`, then try again."
            )
        case ToolPaused(tool=tool):
            first = str(refused).partition(" Do not call it again now")[0]
            return f"{first} Let it go on with `saga-mcp resume {tool}`."
        case _:
            return _in_commands(str(refused), str(getattr(refused, "saga_id", "ID")))


def _in_commands(text: str, saga_id: str) -> str:
    for words, command in _IN_COMMANDS:
        text = text.replace(words, command.format(id=saga_id))
    return _TOOL.sub(lambda tool: _command(tool[1], saga_id), text).replace("  ", " ").rstrip()


def _command(tool: str, saga_id: str) -> str:
    return f"`saga-mcp {_COMMANDS[tool]} {saga_id}`" if tool in _COMMANDS else "the agent"
