"""The MCP server: lists the tools, routes a call to the engine, and answers whatever came of it.

At the edge, on the SDK's low-level server, because tools, schemas and results here belong to others and have to pass as
they are. One server object serves both protocol eras and every connection.
"""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, cast

import mcp_types as types
import structlog
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from saga_mcp.domain.errors import LogError, Refused, SagaQuarantined
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonValue, Phase
from saga_mcp.edge import descriptions, refusals, wording
from saga_mcp.edge.asking import Answered, Asking
from saga_mcp.edge.caller import caller_of
from saga_mcp.edge.changes import ListChanges
from saga_mcp.edge.control import CONTROL_NAMES, Control, Desk, controls
from saga_mcp.edge.deadline import deadline
from saga_mcp.edge.listing import Governed, GovernedTools, nearest
from saga_mcp.edge.look import Look
from saga_mcp.edge.memory import Memory
from saga_mcp.edge.receipt import receipt_of
from saga_mcp.edge.replies import brief, facts, read_reply, readable_error, refusal, step_reply, with_notice
from saga_mcp.edge.service import SagaService
from saga_mcp.edge.visitors import Visitors
from saga_mcp.edge.wording import Names
from saga_mcp.engine.port import Caller, CallReply, Receipt, Relay, SagaIdMissing, SagaIdMistyped, UnknownTool
from saga_mcp.tools.port import Catalogue
from saga_mcp.tools.unsent import InvalidArguments, UpstreamDown
from saga_tools.server import Report

_THIRD = 3

_log = structlog.get_logger(__name__)


def build_server(
    service: SagaService,
    catalogue: Catalogue,
    *,
    changes: ListChanges | None = None,
    visitors: Visitors | None = None,
    name: str = "saga-mcp",
    notice: str = "",
    now: Callable[[], float] = time.time,
) -> Server[Any]:
    """Return the server that offers `catalogue` and the control tools; run it with any transport of the SDK.

    Args:
        service: the running engine.
        catalogue: the governed tools, in the order in which they are listed.
        changes: tells clients that tools have changed; whoever notices it calls `tell`.
        visitors: tells callers apart, and what each may see; without, there is one user, who may see all.
        name: what the server calls itself.
        notice: what every reply says at its end; empty: nothing.
        now: wall clock in seconds since the epoch; only ages in `saga_status` are made of it.

    Raises:
        ValueError: a governed tool has the name of a control tool.
    """
    if taken := CONTROL_NAMES & catalogue.offered.keys():
        raise ValueError(f"tools may not have the names of control tools: {', '.join(sorted(taken))}")
    names = {tool.pair.tool: offered for offered, tool in catalogue.offered.items()}
    residues = {tool.pair.tool: tool.pair.not_restored for tool in catalogue.offered.values()}
    desk = Desk(
        service=service,
        names=lambda tool: names.get(tool, tool),
        residues=lambda tool: residues.get(tool, ""),
        now=now,
    )
    audit_reads = service.settings.audit_reads
    changes = changes or ListChanges()
    governed = GovernedTools(catalogue, audit_reads=audit_reads)
    # A server of many callers keeps nothing of a call for the next one, which another process may answer.
    asking = Asking(enabled=service.settings.ask_in_client and visitors is None, names=desk.names)
    offered = controls(service.settings, teams=visitors is not None and visitors.teams)
    edge = _Edge(desk, offered, governed, _renaming(names), changes, notice, asking, visitors)
    return Server(
        name,
        version=version("saga-mcp"),
        instructions=descriptions.INSTRUCTIONS,
        on_list_tools=edge.list_tools,
        on_call_tool=edge.call_tool,
        get_tool_input_schema=edge.input_schema,
        # Without it a client of the modern era is told that the list of tools never changes.
        on_subscriptions_listen=changes.listening,
    )


@dataclass(slots=True)
class _Edge:
    desk: Desk
    controls: Mapping[str, Control]
    governed: Mapping[str, Governed]
    rename: Names
    changes: ListChanges
    notice: str
    asking: Asking
    visitors: Visitors | None
    memory: Memory = field(default_factory=Memory)

    async def list_tools(
        self, ctx: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The same list for every connection: control tools, then the catalogue's order."""
        if self.visitors is None:
            self.changes.seen(ctx)
        control = (control.listed for control in self.controls.values())
        there = (
            tool.listed
            for name, tool in self.governed.items()
            if name not in CONTROL_NAMES and not tool.listing.missing
        )
        return types.ListToolsResult(tools=[*control, *there])

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """What a tool takes, for the SDK's look at headers that mirror arguments: else it lists all tools each time."""
        offered = self.controls.get(name) or self.governed.get(name)
        return None if offered is None else offered.listed.input_schema

    async def call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer a call; only a cancellation leaves this without a result, because nobody waits for one then."""
        known = caller_of(cast("Mapping[str, object] | None", ctx.meta))
        caller = replace(known, report=_report_of(ctx), ask=self.asking.through(ctx))
        desk = self.desk
        if self.visitors is not None:
            visitor = self.visitors.admit(ctx.request)
            caller = replace(caller, id=visitor.id, remote=True)
            desk = replace(desk, service=visitor.sagas)
        arguments = cast("dict[str, JsonValue]", params.arguments or {})
        control = self.controls.get(params.name)
        receipt = receipt_of(ctx.request)
        try:
            if control is not None:
                reply = await control.run(desk, arguments, caller)
            else:
                answered = await self._call(ctx, params, caller, receipt, desk.service)
                if isinstance(answered, types.InputRequiredResult):
                    return answered
                reply = answered
        except Exception as error:  # noqa: BLE001 - the SDK would hide it from the model, or show what only the log may have
            reply = _refusal_of(error, params.name, self.rename)
            for note in cast("list[str]", getattr(error, "__notes__", [])):
                reply = with_notice(reply, note)
            if receipt is not None:
                receipt.was_lost()  # whatever the tool answered, this does not say it
        offered = control or self.governed.get(params.name)
        told = with_notice(reply, self.notice) if self.notice else reply
        return told if offered is None else readable_error(told, offered.listed)

    async def _call(
        self,
        ctx: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        caller: Caller,
        receipt: Receipt | None,
        service: SagaService,
    ) -> types.CallToolResult | types.InputRequiredResult:
        offered = params.name
        tool = self.governed.get(offered)
        if tool is None:
            raise UnknownTool(offered, nearest(offered, [*self.controls, *self.governed]))
        arguments = tool.split(cast("dict[str, JsonValue]", params.arguments or {}))
        answered = self.asking.answered(ctx, params)
        if answered is not None:
            arguments = replace(arguments, saga_id=answered.saga_id)
        without_id = tool.governs and arguments.saga_id is None and not caller.conversation
        if without_id:
            self.memory.call_without_id(caller)
        opened, relay = "", Relay.NOT_PUT
        try:
            if answered is not None:
                relay = await _relayed(answered, service)
            reply = await service.call(
                offered,
                arguments.tool,
                saga_id=arguments.saga_id,
                step_key=arguments.step_key,
                caller=caller,
                receipt=receipt,
            )
            opened = reply.saga_id if reply.opened else ""
        except Refused as refused:
            if said := refusals.in_client(relay):
                refused.add_note(said)
            raise
        finally:
            together = self.memory.answered(caller, opened) if without_id else ()
        if relay is not Relay.NOT_PUT:
            reply = replace(reply, relay=relay, replayed=False)
        if reply.code == "approval_needed" and reply.saga is not None:
            question = self.asking.instead(ctx, params, reply.saga, reply.step)
            if question is not None:
                return question
        return self._answer(tool, reply, caller, together, keyed=arguments.step_key != "")

    def _answer(
        self, tool: Governed, reply: CallReply, caller: Caller, opened_together: tuple[str, ...], *, keyed: bool
    ) -> types.CallToolResult:
        offered = tool.listed.name
        look = None if reply.saga is None else Look.at(reply.saga)
        if reply.answer is not None and look is None:
            return read_reply(reply.answer, tool)
        texts = [wording.several_opened(opened_together)] if len(opened_together) > 1 else []
        if said := refusals.in_client(reply.relay):
            texts.append(said)
        if reply.replayed:
            texts.append(wording.replayed(reply.step, key=keyed, on_repeat=tool.listing.on_repeat))
        if look is not None and reply.step:
            third = self._aborted_again(look.saga, reply, offered, caller)
            long = self.memory.long_form_due(look, reply.step)
            said = wording.trailing(
                look,
                reply.step,
                self.desk.names,
                deadline=deadline(look, self.desk.service.settings, long=long),
                long=long,
                third_time=third,
                was_idle=reply.was_idle,
            )
            texts.append(said)
        if reply.answer is None or look is None:
            text = (
                refusals.upstream_down(reply.unsent, offered)
                if reply.unsent
                else refusals.without_answer(reply.code, reply.step, offered, open_=look is None or look.plainly_open)
            )
            whole = "\n".join([text, *texts])
            return refusal(reply.code, whole, look=look, saga_id=reply.saga_id, step=reply.step)
        return step_reply(
            reply.answer,
            tool,
            facts(look, step=reply.step, code=reply.code, opened=reply.opened, replayed=reply.replayed),
            brief(look, step=reply.step, code=reply.code),
            texts,
        )

    def _aborted_again(self, saga: Saga, reply: CallReply, offered: str, caller: Caller) -> bool:
        """Whether this call aborted its saga by itself, the third time by the same tool and error."""
        if saga.phase is Phase.ACTIVE or saga.cause != f"step_failed:{reply.step}":
            return False
        return self.memory.aborts(caller, offered, saga.step(reply.step).error) >= _THIRD


async def _relayed(answered: Answered, service: SagaService) -> Relay:
    if answered.answer is None:
        return Relay.UNANSWERED
    return await service.relay(answered.saga_id, answered.step, answered.answer)


def _report_of(ctx: ServerRequestContext[Any, Any]) -> Report | None:
    """What tells the client how far its call has come, where it asked to be told."""
    return None if "progress_token" not in (ctx.meta or {}) else ctx.session.report_progress


def _renaming(names: Mapping[str, str]) -> Names:
    """Return what puts agents' names in place of the config's, anywhere in a text."""
    known = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names) or "(?!)")
    return lambda text: known.sub(lambda found: names[found[0]], text)


def _refusal_of(error: Exception, tool: str, rename: Names) -> types.CallToolResult:
    """Say what went wrong, with its stable code; what is nobody's refusal is a bug, whose details only the log has.

    An unknown tool is a tool error too, as in the SDK's own server: a model can read it and do better.
    """
    match error:
        case InvalidArguments(problems=problems):
            return refusal("invalid_arguments", refusals.invalid_arguments(problems))
        case UpstreamDown(reason=reason):
            return refusal("upstream_down", refusals.upstream_down(reason, tool))
        case UnknownTool() | SagaIdMistyped():
            return refusal("invalid_arguments", refusals.refused(error, rename))
        case SagaIdMissing():
            return refusal("saga_id_missing", refusals.refused(error, rename))
        case SagaQuarantined(saga_id=saga_id):
            text = refusals.quarantined(error, rename, called=tool not in CONTROL_NAMES)
            return refusal(error.code, text, saga_id=saga_id)
        case Refused():
            saga_id = cast("str", getattr(error, "saga_id", ""))
            return refusal(error.code, refusals.refused(error, rename), saga_id=saga_id)
        case LogError():
            return refusal("log_unavailable", refusals.log_unavailable(str(error)))
        case _:
            reference = secrets.token_hex(4)
            _log.error("internal_error", reference=reference, tool=tool, exc_info=error)
            return refusal("internal_error", refusals.internal_error(reference))
