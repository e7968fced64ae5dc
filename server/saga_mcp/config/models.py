"""The keys of `saga.toml`, as pydantic models: the trust boundary where a person's text becomes values.

Nothing here knows what a key means to the engine. The key reference (`docs/config.md`) is made from these models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, PlainValidator

from saga_mcp.config.table import Clash, Table
from saga_mcp.tools.pair import MAX_BYTES

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SecondsOrNone = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Kind = Literal["read_only", "compensable", "pivot", "retriable"]


def _condition(value: object) -> bool | str:
    if isinstance(value, bool | str):
        return value
    raise ValueError("must be true, false or a condition in ${...}")


Condition = Annotated[bool | str, PlainValidator(_condition, json_schema_input_type=bool | str)]


class RetryTable(Table):
    """How often an attempt is made, and how far apart."""

    attempts: int = Field(ge=1, description="all attempts, the first included")
    first_delay_s: SecondsOrNone | None = Field(
        None, description="longest wait before the second; doubles from there; default: 0.5, of an undo 1"
    )
    max_delay_s: SecondsOrNone | None = Field(
        None, description="what the wait never exceeds; default: 20, of an undo 300"
    )

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        if self.first_delay_s is not None and self.max_delay_s is not None and self.max_delay_s < self.first_delay_s:
            yield Clash("max_delay_s is less than first_delay_s", frozenset({"first_delay_s", "max_delay_s"}))


class SagaTable(Table):
    """What holds for every saga."""

    name: str = Field("", description="the realm, whose sagas this server drives; default: from this file's path")
    database: str = Field(
        "",
        description='the saga log, `"sqlite:///saga.db"` or `"postgresql://USER:PASSWORD@HOST/DATABASE"`; default: a '
        "SQLite file per realm in the user's data folder. "
        "`${env:X}` and `${file:X}` are filled in here",
    )
    saga_id: Literal["optional", "required"] = Field(
        "optional", description='a call without one opens a saga; `"required"`: it is refused, `saga_begin` comes first'
    )
    on_error: Literal["abort", "hold"] = Field(
        "abort", description="what a failed step means: the server undoes the saga at once, or leaves it open"
    )
    on_undo_failure: Literal["halt", "continue"] = Field("halt", description="whether a stuck undo halts older ones")
    idle_flag_s: Seconds = Field(
        3600.0,
        description="without a step for so long, a saga becomes an attention item. Counted while a server runs; not "
        "while a step does, or a person is asked",
    )
    on_idle: Literal["flag", "abort", "commit"] = Field(
        "flag", description='what becomes of it after `idle_end_s`; `"flag"`: nothing, it waits for a person'
    )
    idle_end_s: Seconds = Field(
        86400.0, description="idle for so long, a saga is ended as `on_idle` says; never undone past its pivot"
    )
    approval_expires_s: Seconds = Field(
        86400.0, description="how long a person may take to allow a call; after that its question is closed"
    )
    ask_in_client: bool = Field(
        default=False,
        description="a call that needs an `approval` is also put to the person at the MCP client, where that can ask. "
        "What it answers is recorded as relayed by it: a client may answer by itself",
    )
    keep_s: SecondsOrNone = Field(
        0.0, description="`saga-mcp prune` removes sagas that ended longer ago than this; `0`: all are kept"
    )
    wipe_values: bool = Field(
        default=False,
        description="remove arguments, results, captures and texts of a saga from the log once it has ended, nothing "
        "of it waits for a person, and `revert_window_s` is over; done by any server within a minute, and by "
        "`saga-mcp prune`",
    )
    encryption_keys: list[str] = Field(
        [],
        description="what values in the saga log are encrypted with, each `${env:NAME}` or `${file:PATH}` of 32 bytes "
        "in base64; the first writes, all read; default: values are stored as they are",
    )
    revert_window_s: SecondsOrNone = Field(604800.0, description="so long can a committed saga be reverted; `0`: never")
    agent_may_revert: bool = Field(default=False, description="offers `saga_revert`, for what a `guard` looks at first")
    driver: Literal["local", "temporal"] = Field("local", description="who brings sagas to rest: servers, or Temporal")
    reply_within_s: Seconds = Field(25.0, description='longer work answers "still running" and goes on')
    probe_for_s: SecondsOrNone = Field(
        30.0, description="how long a step in doubt is probed before `on_error` rules it"
    )
    replay_window_s: SecondsOrNone = Field(
        600.0,
        description="over HTTP: so long an equal call gets the stored answer if nothing shows that the first did",
    )
    audit_reads: bool = Field(
        default=False,
        description="read-only tools take a `saga_id` too, and a call that has one is recorded in that saga",
    )

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        if self.on_idle != "flag" and self.idle_end_s < self.idle_flag_s:
            yield Clash("idle_end_s is less than idle_flag_s", frozenset({"on_idle", "idle_end_s", "idle_flag_s"}))


class PythonTable(Table):
    """Python tools, loaded by path or by module.

    A file may import its siblings; where an installed module has the same name, that one is imported.
    """

    path: str = Field("", description='`"travel.py:registry"`, or `"crm.py"` with `functions`; relative to this file')
    module: str = Field("", description='instead of `path`: `"acme.tools:registry"`')
    functions: list[str] = Field([], description="plain functions of that file, to be paired in `[tools]`")

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        if bool(self.path) == bool(self.module):
            yield Clash("give either path or module", frozenset({"path", "module"}))


class ReadTable(Table):
    """A call of a read-only tool."""

    tool: str = Field(description="what is called: `NAME.function` or `NAME.tool`, which has to be read-only")
    args: dict[str, Any] = Field({}, description="its arguments, with `${...}` in them")


class CaptureTable(ReadTable):
    """What is read and kept for the undo, which sees it as `capture` or `after`: `found`, `result` and `text`."""

    absent_when: Condition = Field(
        default=False, description="`${...}` over `now`: nothing is there. Searching `now.text` counts for errors only"
    )
    exact_when: Condition = Field(
        default=True, description="`${...}` over `now`: the answer is exactly what is there, so that it can be put back"
    )
    max_bytes: int = Field(
        MAX_BYTES, ge=1, description="bytes of what is there; a larger answer cannot be kept: the call is refused"
    )


class GuardTable(Table):
    """What is looked at before each attempt to undo: the capture once more, or a read of its own."""

    tool: str | None = Field(None, description="a read of its own; default: the capture is made again and compared")
    args: dict[str, Any] = Field({}, description="its arguments, with `${...}` in them")
    as_left: Condition = Field(
        default=False,
        description="`${...}` over `now`: as the step left it, so it is undone. An error decides only for `now.error`",
    )
    as_before: Condition = Field(
        default=False, description="`${...}` over `now`, likewise: as before the step, so there is nothing to undo"
    )
    ignore_order: bool = Field(default=False, description="of the capture: lists are compared as bags")

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        own = {"args", "as_left", "as_before"} & self.model_fields_set
        if self.tool is None and own:
            yield Clash(f"only together with tool: {', '.join(sorted(own))}", frozenset({"tool", *own}))
        elif self.tool is not None and self.ignore_order:
            yield Clash("ignore_order belongs to a guard without a tool", frozenset({"tool", "ignore_order"}))
        elif self.tool is not None and "as_left" not in own:
            yield Clash("say as_left: without it nothing would ever be undone", frozenset({"tool", "as_left"}))


class UndoProbeTable(ReadTable):
    """What tells whether an undo took effect."""

    landed: Condition = Field(
        description="`${...}` over `now`. No verdict: null, and an error unless it looks at `now.error`"
    )


class ProbeTable(UndoProbeTable):
    """What tells whether a call took effect whose answer was lost."""

    result: Any = Field(None, description="the call's result: any value with `${...}` in it; default: it is not known")


class UndoTable(Table):
    """What undoes a tool: one entry, or a list of them; every entry whose `when` holds runs, in order."""

    when: Condition = Field(
        default=True, description="whether the entry runs: `${...}`, frozen with the step's outcome"
    )
    tool: str | None = Field(None, description="what is called: `NAME.function`")
    args: dict[str, Any] = Field(
        {},
        description="its arguments, with `${...}` in them. `text`, what the call answered, is not stored: after a lost "
        "reply it is not known",
    )
    each: str = Field("", description="`${...}` for a list: one call per `item`")
    manual: str | None = Field(None, description="instead of `tool`: what a person has to do; compensation halts there")
    leave: str | None = Field(None, description="instead of `tool`: what stays, by decision")
    nothing: Literal[True] | None = Field(None, description="instead of `tool`: there is nothing to undo")
    urgency: Literal["low", "normal", "high"] = Field("normal", description="of `manual`")
    idempotent: bool | None = Field(
        None,
        description="an attempt of unknown outcome may be sent again with the same key; default: true, of an "
        "upstream's tool false",
    )
    safe_if_absent: bool | None = Field(
        None,
        description="it is harmless where the step never took effect; default: true, of an upstream's tool false",
    )
    timeout_s: Seconds = Field(30.0, description="how long an attempt is waited for")
    retry: RetryTable | None = Field(
        None, description="its attempts; default: 8, 1 s to 300 s apart. Used up: dead letter"
    )
    read: ReadTable | None = Field(
        None, description="made right before each attempt: `args` see its answer as `read`, with the members of `now`"
    )
    probe: UndoProbeTable | None = Field(None, description="asked where the outcome of an attempt is not known")
    done_when: Condition = Field(
        default=False, description="`${...}` over `now`, the error that the undo answered: it was undone already"
    )

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        actions = ("tool", "manual", "leave", "nothing")
        given = [name for name in actions if getattr(self, name) is not None]
        if len(given) != 1:
            message = f"give one of tool, manual, leave or nothing, not {' and '.join(given) or 'none'}"
            yield Clash(message, frozenset(actions))
        elif self.tool is None:
            of_calls = self.model_fields_set & {"args", "each", "read", "probe", "done_when"}
            if of_calls:
                yield Clash(f"only together with tool: {', '.join(sorted(of_calls))}", frozenset({"tool", *of_calls}))


def _undo_as_list(value: object) -> object:
    return [cast("object", value)] if isinstance(value, dict) else value


def _guard_as_table(value: object) -> object:
    if isinstance(value, str):
        if value != "unchanged":
            raise ValueError('must be "unchanged" or a table')
        return {}
    return value


Undos = Annotated[list[UndoTable], BeforeValidator(_undo_as_list)]
Guarded = Annotated[GuardTable, BeforeValidator(_guard_as_table)]


class CaseTable(Table):
    """What a tool is for some of its calls."""

    when: Condition = Field(default=True, description="`${...}` over `args`: the first case that holds is the call's")
    kind: Kind | None = Field(None, description="as in the table of a tool")
    undo: Undos | None = Field(None, description="as in the table of a tool")
    capture: CaptureTable | None = Field(None, description="as in the table of a tool")
    after: CaptureTable | None = Field(None, description="as in the table of a tool")
    guard: Guarded | None = Field(None, description="as in the table of a tool")
    probe: ProbeTable | None = Field(None, description="as in the table of a tool")
    resource: str = Field("", description="as in the table of a tool")


class ToolTable(Table):
    """What a tool is, and what undoes it. What is not said here is as its author said it."""

    kind: Kind | None = Field(None, description="what it does to the world; default: compensable")
    undo: Undos | None = Field(None, description="what undoes it: a table, or a list of tables")
    capture: CaptureTable | None = Field(
        None, description="what is read before the call and kept; where that fails, the call is refused"
    )
    after: CaptureTable | None = Field(None, description="what is read right after it; its undo sees it as `after`")
    guard: Guarded | None = Field(
        None,
        description='looked at before each attempt to undo; `"unchanged"`: the capture is made again after the call '
        "and before the undo. As before: nothing is undone; as the call left it: undone; neither: a person decides",
    )
    probe: ProbeTable | None = Field(None, description="asked where the outcome of a call is not known")
    cases: list[CaseTable] | None = Field(
        None, description="instead of `kind` to `probe`: what it is by its arguments; a call of no case is refused"
    )
    resource: str = Field(
        "",
        description="what it works on, a text with `${...}` over `args`: its saga holds that to its end, and calls of "
        "others that work on the same are refused; default: nothing, and during a call what is captured or guarded",
    )
    approval: Condition = Field(
        default=False,
        description="`true`, or `${...}` over `args`: a person has to allow the call, with `saga-mcp approve`, "
        "before it is sent; until then it is stored",
    )
    secret: list[str] = Field(
        [],
        description="arguments that nobody is shown; where neither an expression names one nor a person is asked about "
        "the call, only an HMAC of it is stored",
    )
    key_arg: str = Field("", description="the argument in which the step's key is sent; agents do not see it")
    key_format: Literal["base32", "hex", "uuid"] = Field("base32", description="how that key is written")
    force: dict[str, Any] = Field({}, description="arguments that are always sent so; agents do not see them")
    timeout_s: Seconds | None = Field(
        None, description="how long a call is waited for, which then goes on; default: 30"
    )
    hard_deadline_s: Seconds | None = Field(
        None, description="how long after its start a call counts as running; default: 10 x `timeout_s`"
    )
    settle_s: SecondsOrNone | None = Field(
        None, description='how long after the end of a call a probe\'s "absent" is believed; default: 5'
    )
    retry: RetryTable | None = Field(None, description="of a call; default: one attempt, `retriable` as an undo: 8")
    idempotent: bool | None = Field(
        None, description="an attempt of unknown outcome may be sent again with the same key; default: false"
    )
    error_means: Literal["no_effect", "unknown"] | None = Field(
        None,
        description='what an error proves; default: `"unknown"`; of an upstream\'s tool `"no_effect"` for its own '
        'errors, -32601 and -32602, `"unknown"` for every other JSON-RPC error',
    )
    failed_when: Condition | None = Field(
        None, description="of an upstream's tool, in every role: `${...}` over `text`, `result`, `content`, `args`"
    )
    no_effect_when: Condition | None = Field(
        None,
        description="of an upstream's tool: which errors had no effect, instead of `error_means`; of a JSON-RPC error "
        "`text` is the message",
    )
    result: str | None = Field(
        None,
        description="of an upstream's tool: `${...}` for its result, over `text`, `content`, `args`; default: its "
        "structured content, else the JSON of its text",
    )
    on_repeat: Literal["run", "replay", "refuse"] | None = Field(
        None, description='what a call gets that equals one whose answer the caller has; default: `"run"`'
    )
    not_restored: str = Field(
        "", description="what its undo does not bring back, for whoever decides whether to call it"
    )
    offer: bool = Field(default=True, description="whether agents see it")

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        beside = self.model_fields_set & (CaseTable.model_fields.keys() - {"when"})
        if self.cases is not None and beside:
            yield Clash(f"cases and {', '.join(sorted(beside))}: say it in the cases", frozenset({"cases", *beside}))
        if self.cases == []:
            yield Clash("no case would ever hold", frozenset({"cases"}))


class UpstreamTable(Table):
    """A server that this one stands in front of; the same keys as an entry of a client's `mcpServers`.

    `${env:X}` and `${file:X}` are filled in here, in every text of `command` to `headers`, and in `account`.
    """

    command: str = Field("", description="what is started, and spoken to over its stdin and stdout")
    args: list[str] = Field([], description="its arguments")
    env: dict[str, str] = Field({}, description="its environment, besides what every program needs (PATH, HOME)")
    cwd: str = Field("", description="where it runs, relative to this file; default: where this file is")
    url: str = Field("", description="instead of `command`: where it answers over streamable HTTP")
    headers: dict[str, str] = Field({}, description="of `url`: what each request carries")
    preset: str = Field("", description="shipped pairs for this server; what `[tools]` says goes before them")
    tools: list[str] | None = Field(None, description="what agents are offered; default: every declared tool")
    read_only: list[str] = Field([], description="tools that change nothing; they need no table of their own")
    trust_read_only_hint: bool = Field(
        default=False, description="offer as read-only what the server itself calls read-only"
    )
    prefix: str | None = Field(
        None, description='of the names that agents see, `PREFIX_TOOL`; default: the upstream\'s name; `""`: none'
    )
    scope: Literal["host", "shared"] | None = Field(
        None,
        description='whether only the machine that did a step undoes it; default: `"host"`, of a url `"shared"`',
    )
    account: str = Field("", description="whose data it works on: a step is undone only where this is the same")
    one_at_a_time: bool = Field(
        default=False, description="calls of it wait for each other, reads too: for a server that loses what overlaps"
    )
    failed_when: Condition = Field(default=False, description="of all its tools: see `[tools]`")
    no_effect_when: Condition | None = Field(None, description="of all its tools: see `[tools]`")
    error_means: Literal["no_effect", "unknown"] | None = Field(None, description="of all its tools: see `[tools]`")
    result: str = Field("", description="of all its tools: see `[tools]`")

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        if bool(self.command) == bool(self.url):
            yield Clash("give either command or url", frozenset({"command", "url"}))
        elif self.url and (self.args or self.env or self.cwd):
            yield Clash("args, env and cwd belong to command", frozenset({"url", "args", "env", "cwd"}))
        elif self.command and self.headers:
            yield Clash("headers belong to url", frozenset({"command", "headers"}))
