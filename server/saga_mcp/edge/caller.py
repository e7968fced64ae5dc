"""Who calls, as far as a request says so: hosts put their own ids into `_meta` (MCP_FACTS.md 1.3).

At the edge because only the wire knows these keys. They are names for listing and joining, never a permission (S1.5).
"""

from collections.abc import Mapping

from saga_mcp.edge.clean import is_storable
from saga_mcp.engine.port import Caller

_CONVERSATION_KEYS = (
    "vscode.conversationId",
    "threadId",
    "ai.opencode/sessionID",
    "antigravity.google/conversation_id",
)
"""How VS Code, Codex, OpenCode and Antigravity name a conversation."""
_CALL_KEY = "claudecode/toolUseId"
_LONGEST = 200


def caller_of(meta: Mapping[str, object] | None) -> Caller:
    """Return the caller that a request's `_meta` tells of; what is missing stays empty, as on Claude Desktop."""
    given = meta or {}
    conversations = (f"{key}:{text}" for key in _CONVERSATION_KEYS if (text := _text(given.get(key))))
    return Caller(conversation=next(conversations, ""), call_id=_text(given.get(_CALL_KEY)))


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) and is_storable(value) else ""
