"""Asks the person at the MCP client whether a call may be made (elicitation), where the config says so.

At the edge because each protocol era has its way: up to 2025-11-25 the server sends a request of its own, from
2026-07-28 on the call is answered with the question and made again with what was answered. A model sees neither.
A client may answer by itself, without any person: whatever it says is recorded as relayed by it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from saga_mcp.domain.hiding import hidden
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge import refusals
from saga_mcp.edge.clean import escape, said_values
from saga_mcp.edge.wording import Names
from saga_mcp.engine.port import Answer, Ask
from saga_mcp.engine.recent import Recent
from saga_mcp.tools.unsent import InvalidArguments

_KEY = "approval"
_LONGEST_QUESTION = 4_000
"""Characters. What cannot be shown whole is not asked: a person would allow what they have not seen."""
_LONGEST_NAME = 80
_LONGEST_NOTE = 200
# One answer that has to be chosen, so that a client which accepts whatever it is asked approves of nothing.
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "approve: this call is sent, once. reject: it is never sent.",
            "enum": ["approve", "reject"],
        },
        "note": {"type": "string", "title": "Note", "description": "why; the agent reads it", "maxLength": 200},
    },
    "required": ["decision"],
}


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that was made again with what became of its question."""

    saga_id: str
    step: int
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A call that was answered with a question."""

    saga_id: str
    step: int
    name: str
    arguments: JsonObject


@dataclass(slots=True)
class Asking:
    """The questions that were put to clients; a restart forgets them, and an answer to one is refused then."""

    enabled: bool
    names: Names
    _pending: Recent[str, _Pending] = field(default_factory=Recent[str, _Pending])
    _put: Recent[tuple[str, int], bool] = field(default_factory=Recent[tuple[str, int], bool])

    def through(self, ctx: ServerRequestContext[Any, Any]) -> Ask | None:
        """What asks the client of a call beside it; None: it is not to be asked, or not in this way."""
        if not self.enabled or ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS or not _can_ask(ctx):
            return None

        async def ask(saga: Saga, number: int) -> Answer | None:
            question = self._question(saga, saga.step(number))
            # On the connection's own channel, not the call's: a question outlives it.
            return None if question is None else _read(await ctx.session.elicit_form(question, _FORM), ctx)

        return ask

    def instead(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams, saga: Saga, number: int
    ) -> types.InputRequiredResult | None:
        """What answers a call of the modern era in place of "approval needed", once; None: that it is."""
        if not self.enabled or ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS or not _can_ask(ctx):
            return None
        question = self._question(saga, saga.step(number))
        if question is None or self._put.get((saga.id, number)):
            return None
        self._put.put((saga.id, number), True)  # noqa: FBT003 - a set, of the last ones
        # Nothing but a name: the state is here, so that nobody can make one up, or use it twice.
        token = secrets.token_urlsafe(24)
        self._pending.put(token, _Pending(saga.id, number, params.name, _arguments(params)))
        form = types.ElicitRequestFormParams(message=question, requested_schema=_FORM)
        return types.InputRequiredResult(input_requests={_KEY: types.ElicitRequest(params=form)}, request_state=token)

    def answered(self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> Answered | None:
        """What a call brings of the question that it was answered with before; None: it is a call like any other.

        Raises:
            InvalidArguments: it is about no question that is being asked, or about another call's.
        """
        if params.request_state is None and params.input_responses is None:
            return None
        pending = self._pending.take(params.request_state or "")
        if pending is None or (pending.name, pending.arguments) != (params.name, _arguments(params)):
            raise InvalidArguments((refusals.NOT_ASKED,))
        result = (params.input_responses or {}).get(_KEY)
        answer = _read(result, ctx) if isinstance(result, types.ElicitResult) else None
        return Answered(pending.saga_id, pending.step, answer)

    def _question(self, saga: Saga, step: Step) -> str | None:
        step = hidden(saga).step(step.number)
        lines = [
            "An agent wants to make this call, and you have to allow it:",
            "",
            escape(self.names(step.tool)),
            *(f"  {name} = {value}" for name, value in said_values(step.plan.args)),
            "",
            f"Nothing of it was sent yet. It is step {step.number} of saga {saga.id}.",
        ]
        text = "\n".join(lines)
        return text if len(text) <= _LONGEST_QUESTION else None


def _arguments(params: types.CallToolRequestParams) -> JsonObject:
    return cast("dict[str, JsonValue]", params.arguments or {})


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client says that it shows forms; a bare `elicitation: {}` is older than the other modes."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _read(result: types.ElicitResult, ctx: ServerRequestContext[Any, Any]) -> Answer | None:
    """What was answered: to decline is to forbid; to close the question, or to decide nothing, is neither."""
    content = result.content or {}
    decision = content.get("decision") if result.action == "accept" else None
    if result.action != "decline" and decision not in ("approve", "reject"):
        return None
    note = content.get("note")
    return Answer(
        allowed=decision == "approve",
        by=_by(ctx),
        note=note[:_LONGEST_NOTE] if isinstance(note, str) else "",
    )


def _by(ctx: ServerRequestContext[Any, Any]) -> str:
    params = ctx.session.client_params
    name = "without a name" if params is None else escape(f"{params.client_info.name} {params.client_info.version}")
    return f"the client {name[:_LONGEST_NAME]} (relayed)"
