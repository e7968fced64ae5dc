"""The control tools: what agents begin, end, mark, look at and, where allowed, revert sagas with (DESIGN.md 5.3).

Their arguments come straight from a model, so each tool has a strict model of them; none of them can approve anything.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import mcp_types as types
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from saga_mcp.domain.attention import tally
from saga_mcp.domain.pausing import Pause, is_allowed
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, JsonValue, Phase
from saga_mcp.edge import descriptions, refusals, wording
from saga_mcp.edge.clean import is_storable
from saga_mcp.edge.deadline import deadline
from saga_mcp.edge.listing import FACTS_SCHEMA, LONGEST_TEXT, nearest, read_saga_id
from saga_mcp.edge.look import Look
from saga_mcp.edge.replies import brief, control_reply, refusal
from saga_mcp.edge.service import SagaService
from saga_mcp.edge.status import list_view, saga_view
from saga_mcp.edge.wording import Names
from saga_mcp.engine.port import Caller, EngineSettings
from saga_mcp.engine.waiting import OnProgress
from saga_mcp.tools.unsent import InvalidArguments
from saga_tools.server import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the control tools work with."""

    service: SagaService
    names: Names
    residues: Names
    """What the undo of a tool does not bring back, by the tool's name in the config."""
    now: Callable[[], float]
    """Wall clock in seconds since the epoch; only ages are made of it."""


def _decoded(value: object) -> object:
    """A list that a host sent as JSON text (CASES C55); anything else is left to the validator."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _storable(text: str) -> str:
    if not is_storable(text):
        message = "must hold no NUL and no half of a surrogate pair"
        raise PydanticCustomError("not_storable", message)
    return text


_Text: TypeAlias = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_storable)]
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_storable)]
_SagaId: TypeAlias = Annotated[str, Field(description=descriptions.SAGA_ID)]
_Number: TypeAlias = Annotated[int, Field(ge=0, le=2**31)]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_A = TypeVar("_A", bound=_Arguments)

_MOST_COUNTED = 1000
"""Of the open sagas, newest first: as many as fit are shown, and what is left is said up to here."""


class _Begin(_Arguments):
    purpose: Annotated[_Text, Field(description=descriptions.PURPOSE)] = ""
    key: Annotated[_Text, Field(description=descriptions.BEGIN_KEY)] = ""


class _BeginForTeam(_Begin):
    team: Annotated[_Text, Field(description=descriptions.BEGIN_TEAM)] = ""


class _Commit(_Arguments):
    saga_id: _SagaId
    accept_failed: Annotated[
        list[_Number], BeforeValidator(_decoded), Field(description=descriptions.ACCEPT_FAILED, max_length=1000)
    ] = []


class _Abort(_Arguments):
    saga_id: _SagaId
    reason: Annotated[_Text, Field(description=descriptions.REASON)] = ""
    to_savepoint: Annotated[_Name | SkipJsonSchema[None], Field(description=descriptions.TO_SAVEPOINT)] = None


class _Status(_Arguments):
    saga_id: _SagaId | SkipJsonSchema[None] = None
    after_step: Annotated[_Number, Field(description=descriptions.AFTER_STEP)] = 0


class _Savepoint(_Arguments):
    saga_id: _SagaId
    name: Annotated[_Name, Field(description=descriptions.SAVEPOINT_NAME)]


class _Revert(_Arguments):
    saga_id: Annotated[str, Field(description=descriptions.REVERTED_ID)]
    reason: Annotated[_Text, Field(description=descriptions.REASON)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control tool: how it is listed, and what a call of it does."""

    listed: types.Tool
    run: Callable[[Desk, Mapping[str, JsonValue], Caller], Awaitable[types.CallToolResult]]


async def _begin(desk: Desk, given: Mapping[str, JsonValue], caller: Caller) -> types.CallToolResult:
    return await _opened(desk, _read(_Begin, given), caller, "")


async def _begin_for_team(desk: Desk, given: Mapping[str, JsonValue], caller: Caller) -> types.CallToolResult:
    arguments = _read(_BeginForTeam, given)
    return await _opened(desk, arguments, caller, arguments.team)


async def _opened(desk: Desk, arguments: _Begin, caller: Caller, team: str) -> types.CallToolResult:
    saga = await desk.service.begin(caller, purpose=arguments.purpose, key=arguments.key, team=team)
    look = Look.at(saga)
    return _told(look, wording.begun(saga, deadline(look, desk.service.settings)))


async def _commit(desk: Desk, given: Mapping[str, JsonValue], caller: Caller) -> types.CallToolResult:
    arguments = _read(_Commit, given)
    saga_id = read_saga_id(arguments.saga_id)
    saga = await desk.service.commit(saga_id, by=_by(caller), accept_failed=arguments.accept_failed)
    look = Look.at(saga)
    return _told(look, wording.trailing(look, 0, desk.names))


async def _abort(desk: Desk, given: Mapping[str, JsonValue], caller: Caller) -> types.CallToolResult:
    arguments = _read(_Abort, given)
    saga_id, mark = read_saga_id(arguments.saga_id), arguments.to_savepoint
    saga = await desk.service.abort(
        saga_id,
        cause="agent",
        by=_by(caller),
        reason=arguments.reason,
        to_savepoint=mark,
        on_progress=None if caller.report is None else _reporting(caller.report),
    )
    look = Look.at(saga, await _paused(desk, saga))
    if saga.abort_wanted is not None:
        return refusal("step_unsettled", wording.abort_deferred(saga, desk.names), look=look)
    if mark is not None and saga.phase is Phase.ACTIVE and not look.needs_person:
        return _told(look, wording.back_at(look, mark, deadline(look, desk.service.settings)))
    return _told_of_rollback(desk, look)


def _by(caller: Caller) -> str:
    """Who decided: the agent, by its caller's name where there are several."""
    return caller.id or "agent"


def _told_of_rollback(desk: Desk, look: Look) -> types.CallToolResult:
    if look.saga.phase is Phase.COMPENSATING and (idles := refusals.idles(desk.service.standing)):
        return refusal("log_unavailable", refusals.abort_only_recorded(look.saga.id, idles), look=look)
    if look.saga.phase is Phase.COMPENSATING and not look.needs_person and desk.service.driver_trouble:
        return refusal("driver_unavailable", refusals.not_driven(look.saga.id, desk.service.driver_trouble), look=look)
    text = wording.trailing(look, 0, desk.names)
    return refusal("needs_person", text, look=look) if look.needs_person else _told(look, text)


async def _paused(desk: Desk, saga: Saga) -> Mapping[str, Pause]:
    matters = saga.phase is Phase.COMPENSATING or any(map(is_allowed, saga.loose_steps))
    return await desk.service.paused() if matters else {}


async def _revert(desk: Desk, given: Mapping[str, JsonValue], caller: Caller) -> types.CallToolResult:
    arguments = _read(_Revert, given)
    order = RevertOrder(by=_by(caller), reason=arguments.reason, agent=True)
    progress = None if caller.report is None else _reporting(caller.report)
    saga = await desk.service.revert(read_saga_id(arguments.saga_id), order, progress)
    return _told_of_rollback(desk, Look.at(saga, await _paused(desk, saga)))


def _reporting(report: Report) -> OnProgress:
    """Tell how far a rollback has come, whenever it has come further: many clients wait longer then."""
    last = -1

    async def tell(saga: Saga) -> None:
        nonlocal last
        count = tally(saga)
        settled, steps = wording.progress(count)
        if settled > last:
            last = settled
            await report(settled, steps, wording.undone_so_far(count))

    return tell


async def _status(desk: Desk, given: Mapping[str, JsonValue], caller: Caller) -> types.CallToolResult:
    arguments = _read(_Status, given)
    if arguments.saga_id is None:
        rows = await desk.service.open_sagas(caller, limit=_MOST_COUNTED)
        view = list_view(rows, caller=caller, now=desk.now())
        return control_reply(_json(view), view)
    saga = await desk.service.saga(read_saga_id(arguments.saga_id))
    look = Look.at(saga, await _paused(desk, saga))
    view = saga_view(
        look,
        desk.names,
        deadline(look, desk.service.settings),
        residues=desk.residues,
        after_step=arguments.after_step,
        idles=refusals.idles(desk.service.standing),
        overdue=await desk.service.overdue(saga) if saga.running else (),
    )
    return control_reply(_json(view), view, look=look)


async def _savepoint(desk: Desk, given: Mapping[str, JsonValue], _caller: Caller) -> types.CallToolResult:
    arguments = _read(_Savepoint, given)
    saga = await desk.service.savepoint(read_saga_id(arguments.saga_id), arguments.name)
    look = Look.at(saga)
    return _told(look, wording.marked(saga, arguments.name, deadline(look, desk.service.settings)))


def _told(look: Look, text: str) -> types.CallToolResult:
    view: JsonObject = {
        "saga_id": look.saga.id,
        "state": look.state,
        "summary": look.summary,
        "message": text,
        "saga": brief(look),
    }
    return control_reply(text, view, look=look)


def _json(view: JsonObject) -> str:
    return json.dumps(view, ensure_ascii=False)


def _read(model: type[_A], given: Mapping[str, JsonValue]) -> _A:
    """Return the arguments of a control tool.

    Raises:
        InvalidArguments: some do not fit; all problems at once, without the values.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        raise InvalidArguments(tuple(_problem(model, item) for item in found)) from None


def _problem(model: type[BaseModel], found: ErrorDetails) -> str:
    name = ".".join(map(str, found["loc"]))
    if found["type"] == "extra_forbidden":
        return refusals.unknown_argument(name, nearest(name, list(model.model_fields)))
    return f'"{name}": {found["msg"][:1].lower()}{found["msg"][1:]}'


# --- the list ---------------------------------------------------------------------------------------------------------


_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer"}
_ENTRIES: JsonObject = {"type": "array", "items": {"type": "object"}}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}

_TOLD: JsonObject = {
    "type": "object",
    "properties": {"saga_id": _TEXT, "state": _TEXT, "summary": _TEXT, "message": _TEXT, "saga": FACTS_SCHEMA},
    "required": ["saga_id", "state", "summary", "message", "saga"],
    "additionalProperties": False,
}
_VIEW: JsonObject = {
    "type": "object",
    "properties": {
        **dict.fromkeys(
            ("saga_id", "state", "phase", "summary", "purpose", "team", "opened_by", "reason", "reverts"), _TEXT
        ),
        "cause": {"type": "object"},
        "abort_wanted": {"type": "boolean"},
        **dict.fromkeys(("savepoints", "holds", "next", "reverted_by"), _TEXTS),
        **dict.fromkeys(("items", "undo_plan", "steps", "sagas"), _ENTRIES),
        **dict.fromkeys(("items_not_shown", "undo_plan_not_shown", "holds_not_shown"), _COUNT),
        **dict.fromkeys(("sagas_not_shown", "next_after_step"), _COUNT),
        "saga": FACTS_SCHEMA,
    },
    "additionalProperties": False,
}


def _listed(
    name: str, text: str, arguments: type[BaseModel], output: JsonObject, hints: types.ToolAnnotations
) -> types.Tool:
    schema = cast("dict[str, Any]", _untitled(arguments.model_json_schema()))
    return types.Tool(name=name, description=text, input_schema=schema, output_schema=output, annotations=hints)


def _untitled(schema: JsonValue) -> JsonValue:
    """The schema without what models do not need to read: titles, and defaults that say "none"."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: value
        for name, value in schema.items()
        if name != "default" and not (name == "title" and isinstance(value, str))
    }
    return {name: _untitled(value) for name, value in kept.items()}


_SAFE = types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_REPEATABLE = _SAFE.model_copy(update={"idempotent_hint": True})
_UNDOES = types.ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True)
_READS = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

_ALL: Mapping[str, Control] = {
    control.listed.name: control
    for control in (
        Control(listed=_listed("saga_begin", descriptions.BEGIN, _Begin, _TOLD, _SAFE), run=_begin),
        Control(listed=_listed("saga_commit", descriptions.COMMIT, _Commit, _TOLD, _REPEATABLE), run=_commit),
        Control(listed=_listed("saga_abort", descriptions.ABORT, _Abort, _TOLD, _UNDOES), run=_abort),
        Control(listed=_listed("saga_status", descriptions.STATUS, _Status, _VIEW, _READS), run=_status),
        Control(
            listed=_listed("saga_savepoint", descriptions.SAVEPOINT, _Savepoint, _TOLD, _REPEATABLE), run=_savepoint
        ),
        Control(listed=_listed("saga_revert", descriptions.REVERT, _Revert, _TOLD, _UNDOES), run=_revert),
    )
}
"""In the order in which they are listed, before all governed tools: a host that cuts a long list keeps them."""

CONTROL_NAMES = frozenset(_ALL)
"""No governed tool may have one of these names, whatever the config offers."""


_BEGIN_FOR_TEAM = Control(
    listed=_listed("saga_begin", descriptions.BEGIN, _BeginForTeam, _TOLD, _SAFE), run=_begin_for_team
)


def controls(settings: EngineSettings, *, teams: bool = False) -> Mapping[str, Control]:
    """The control tools that agents are offered, by name, in the order in which they are listed.

    Args:
        settings: what the config says.
        teams: callers may open sagas for a team.
    """
    offered = {name: control for name, control in _ALL.items() if name != "saga_revert" or settings.agent_may_revert}
    return {**offered, "saga_begin": _BEGIN_FOR_TEAM} if teams else offered
