"""From tables of `[tools]` to pairs: what the config says is laid over what the author said, and checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from saga_mcp.config.findings import Findings
from saga_mcp.config.models import RetryTable, ToolTable, UndoTable
from saga_mcp.config.problems import NOT_YET, KeyPath, did_you_mean
from saga_mcp.config.validate import Read
from saga_mcp.domain.repeats import OnRepeat
from saga_mcp.domain.values import JsonValue, Kind, OnError, PartAction, Urgency
from saga_mcp.tools.binding import Path, TemplateError, compile_condition, compile_template
from saga_mcp.tools.declared import DeclaredRegistry, DeclaredTool, declare
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_mcp.tools.undo_plan import UndoPlan, late_args
from saga_mcp.tools.variables import AFTER_OUTCOME as VARIABLES
from saga_mcp.tools.variables import MEMBERS
from saga_tools import Retry, ToolRegistry
from saga_tools.server import UNDO_RETRY

_OF_UPSTREAMS = frozenset({"failed_when", "no_effect_when", "result"})
"""Keys that read the answers of a server."""
_ELSEWHERE = re.compile(r"\$\{\s*(env|file):")
_NOTHING_UNDOES = (
    'nothing undoes it: give it undo, or say kind = "read_only", "pivot" (cannot be undone) or "retriable" '
    "(runs after the pivot until it succeeds)"
)


@dataclass(frozen=True, slots=True)
class Callables:
    """What undos may call.

    Attributes:
        schemas: The JSON Schema of the arguments of each function, by name in the config.
        targets: Where each acts (S1.2), by name in the config.
        upstreams: Where the tools of each upstream act, by its name. What arguments they take, only they know.
        unusable: Names of `[python]` and other tables that could not be read, and of functions (`crm.create_lead`) that
            are not there: what they would be is not known.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    targets: Mapping[str, str]
    upstreams: Mapping[str, str]
    unusable: frozenset[str]

    def target(self, tool: str) -> str:
        """Where a tool acts; empty where it is not known."""
        return self.targets.get(tool) or self.upstreams.get(tool.partition(".")[0], "")

    def is_upstream(self, tool: str) -> bool:
        """Whether it is a tool of an upstream, of which nothing is assumed (S6.4, S6.8)."""
        return tool.partition(".")[0] in self.upstreams


def declare_with(
    name: str,
    source: ToolRegistry,
    tables: Mapping[str, Read[ToolTable]],
    *,
    plain: bool,
    on_error: OnError,
    callables: Callables,
    findings: Findings,
) -> DeclaredRegistry:
    """Return a registry with what the config says about its tools.

    Args:
        name: Its name in the config.
        source: A registry without problems of its own.
        tables: What the config says, by the tool's name in the registry.
        plain: Its functions carry no traits of their own: only those in `tables` are governed.
        on_error: Of every saga.
        callables: What undos may call.
        findings: Where problems go.
    """
    coded = declare(name, source, on_error=on_error)
    tools: list[DeclaredTool] = []
    for tool in coded.tools:
        read = tables.get(tool.registered.name)
        path: KeyPath = ("tools", tool.name)
        if read is None:
            tools.append(replace(tool, governed=not plain, offered=not plain))
        else:
            table = read.table
            for key in sorted(table.model_fields_set & _OF_UPSTREAMS):
                findings.problem((*path, key), "belongs to tools of an upstream: a function raises where it fails")
            pair = _Overlay(path, tool, read, callables, findings).pair()
            tools.append(
                replace(
                    tool,
                    pair=pair,
                    error_means=table.error_means or tool.error_means,
                    offered=table.offer,
                    takes_step_key=tool.takes_step_key or table.on_repeat is not None,
                    on_repeat=tool.on_repeat if table.on_repeat is None else OnRepeat(table.on_repeat),
                )
            )
        if tools[-1].governed:
            unread = frozenset[str]() if read is None else read.unread
            where: KeyPath = path if read else ("python", name)
            _check_whole(where, tools[-1].pair, tools[-1].registered.name, unread, findings)
    return replace(coded, tools=tuple(tools))


def check_alone(key: str, read: Read[ToolTable], callables: Callables, findings: Findings) -> None:
    """Check what can be said of a table whose function cannot be looked at."""
    check = _Check(("tools", key), None, read, callables, findings)
    table = read.table
    if table.timeout_s is not None:
        check.deadline(table.hard_deadline_s or table.timeout_s, table.timeout_s)
    check.undos(Kind.COMPENSABLE if table.kind is None else Kind(table.kind))


def declare_alone(base: Pair, read: Read[ToolTable], callables: Callables, findings: Findings) -> Pair:
    """Return the pair of a tool that only the config speaks of.

    Args:
        base: What is known of it without its table.
        read: Its table.
        callables: What undos may call.
        findings: Where problems go.
    """
    check_alone(base.tool, read, callables, findings)
    table = read.table
    kind = base.kind if table.kind is None else Kind(table.kind)
    timeout_s = table.timeout_s or base.timeout_s
    undos = (table.undo or ()) if kind is Kind.COMPENSABLE else ()
    pair = replace(
        base,
        kind=kind,
        undo=tuple(_entry(undo, callables) for undo in undos),
        safe_if_absent=bool(undos) and all(_safe_if_absent(undo, callables) for undo in undos),
        idempotent=bool(table.idempotent),
        retry=base.retry if table.retry is None else _retry(table.retry, Retry()),
        timeout_s=timeout_s,
        hard_deadline_s=table.hard_deadline_s or 10 * timeout_s,
        settle_s=base.settle_s if table.settle_s is None else table.settle_s,
        not_restored=table.not_restored,
    )
    _check_whole(("tools", base.tool), pair, base.tool.partition(".")[2], read.unread, findings)
    return pair


class _Overlay:
    """One table of `[tools]`, laid over the pair of the code."""

    def __init__(
        self, path: KeyPath, tool: DeclaredTool, read: Read[ToolTable], callables: Callables, findings: Findings
    ) -> None:
        self._tool = tool
        self._table = read.table
        self._callables = callables
        self._check = _Check(path, tool, read, callables, findings)

    def pair(self) -> Pair:
        table, coded = self._table, self._tool.pair
        kind = coded.kind if table.kind is None else Kind(table.kind)
        timeout_s = table.timeout_s or coded.timeout_s
        coded_deadline_s = self._tool.registered.traits.hard_deadline_s
        deadline_s = table.hard_deadline_s or coded_deadline_s or 10 * timeout_s
        self._check.deadline(deadline_s, timeout_s)
        self._check.undos(kind)
        changed = replace(
            coded,
            kind=kind,
            idempotent=coded.idempotent if table.idempotent is None else table.idempotent,
            retry=coded.retry if table.retry is None else _retry(table.retry, Retry()),
            timeout_s=timeout_s,
            hard_deadline_s=float(deadline_s),
            settle_s=coded.settle_s if table.settle_s is None else table.settle_s,
            not_restored=table.not_restored,
        )
        if kind is not Kind.COMPENSABLE:
            return replace(changed, undo=(), safe_if_absent=False)
        if table.undo is None:
            return changed
        return replace(
            changed,
            undo=tuple(_entry(undo, self._callables) for undo in table.undo),
            safe_if_absent=all(_safe_if_absent(undo, self._callables) for undo in table.undo),
        )


class _Check:
    """What is wrong with a table of `[tools]`; `tool` is None where its function cannot be looked at."""

    def __init__(
        self, path: KeyPath, tool: DeclaredTool | None, read: Read[ToolTable], callables: Callables, findings: Findings
    ) -> None:
        self._path = path
        self._tool = tool
        self._read = read
        self._one_undo = isinstance(read.written.get("undo"), dict)
        self._callables = callables
        self._findings = findings

    def deadline(self, deadline_s: float, timeout_s: float) -> None:
        if deadline_s < timeout_s and not self._read.unread & {"timeout_s", "hard_deadline_s"}:
            self._findings.problem((*self._path, "hard_deadline_s"), f"is shorter than timeout_s, {timeout_s:g}")

    def undos(self, kind: Kind) -> None:
        undos = self._read.table.undo
        if kind is not Kind.COMPENSABLE and undos is not None:
            self._findings.problem((*self._path, "undo"), f"a {kind} tool has no undo; drop it, or the kind")
        for number, undo in enumerate(undos or ()):
            self._check_undo(number, undo)

    def _check_undo(self, number: int, undo: UndoTable) -> None:
        path: KeyPath = (*self._path, "undo") if self._one_undo else (*self._path, "undo", number)
        late = late_args(undo.args)
        fixed = {name: value for name, value in undo.args.items() if name not in late}
        inside = VARIABLES | {"item"} if undo.each else VARIABLES
        fields: dict[str, tuple[JsonValue, frozenset[str]]] = {
            "each": (undo.each, VARIABLES),
            "args": (fixed, inside),
            "manual": (undo.manual or "", inside),
            "leave": (undo.leave or "", inside),
        }
        self._check_template((*path, "when"), undo.when, VARIABLES, condition=True)
        for field, (value, variables) in fields.items():
            self._check_template((*path, field), value, variables)
        if undo.each and not undo.each.startswith("${"):
            self._findings.problem((*path, "each"), "must be one ${...} for a list")
        if undo.tool is not None:
            self._check_call(path, undo.tool, undo.args)
            self._check_not_the_call_itself(path, undo)
            if not self._read.unread & {"undo"} and self._blind_by_default(undo):
                self._findings.warn(
                    path,
                    "runs with what the call was given, also where the call did nothing: say safe_if_absent = true "
                    "if that is harmless, or false to ask a person then",
                )

    def _blind_by_default(self, undo: UndoTable) -> bool:
        """Whether it needs no result, and nobody said that this is harmless where there is none."""
        try:
            names = compile_template(undo.args, variables=VARIABLES | {"item"}).names
        except TemplateError:
            return False  # noted where it stands
        return (
            undo.safe_if_absent is None
            and _safe_if_absent(undo, self._callables)
            and not names & {"result", "text", "item"}
        )

    def _check_not_the_call_itself(self, path: KeyPath, undo: UndoTable) -> None:
        same = self._tool is not None and undo.tool == self._tool.name
        if same and all(value == f"${{args.{name}}}" for name, value in undo.args.items()):
            self._findings.problem((*path, "tool"), "is the call itself, once more: name what takes it back")

    def _check_template(
        self,
        path: KeyPath,
        value: JsonValue,
        variables: frozenset[str],
        *,
        condition: bool = False,
    ) -> None:
        elsewhere = [each for each in _strings(value) if _ELSEWHERE.search(each)]
        if elsewhere:
            self._findings.problem(
                path, "${env:...} and ${file:...} are filled in only in saga.database and in [upstreams]"
            )
            return
        try:
            compiled = (
                compile_condition(cast("str | bool", value), variables=variables)
                if condition
                else compile_template(value, variables=variables)
            )
        except TemplateError as error:
            for problem in error.problems:
                self._findings.problem((*path, *_inner(problem.path)), str(problem))
            return
        if "capture" in compiled.names:
            self._findings.problem(path, f"capture is {NOT_YET}")
        for each in compiled.paths:
            self._check_path(path, each)

    def _check_path(self, path: KeyPath, used: Path) -> None:
        if len(used) < 2 or not isinstance(used[1], str):  # noqa: PLR2004 - a variable and its member
            return
        variable, member = str(used[0]), used[1]
        if variable == "step" and member == "undo_key":
            self._findings.problem(path, "step.undo_key can only be a whole argument: ${step.undo_key}")
            return
        known = MEMBERS.get(variable) if self._tool is None else self._members(self._tool, variable)
        if known is not None and member not in known:
            tool = self._tool.name if self._tool is not None and variable in {"args", "result"} else ""
            whose = f"{tool} has no" if tool else "there is no"
            self._findings.problem(path, f"{whose} {variable}.{member}{did_you_mean(member, known)}")

    def _members(self, tool: DeclaredTool, variable: str) -> Collection[str] | None:
        """What a variable holds, where that is known."""
        registered = tool.registered
        if variable == "args":
            return cast("Mapping[str, object]", registered.input_schema["properties"])
        if variable == "result" and registered.output_schema is not None and not registered.wraps_result:
            schema = registered.output_schema
            properties = cast("Mapping[str, object] | None", schema.get("properties"))
            return properties if "additionalProperties" not in schema else None
        return MEMBERS.get(variable)

    def _check_call(self, path: KeyPath, tool: str, args: Mapping[str, Any]) -> None:
        schema = self._callables.schemas.get(tool)
        if schema is None:
            if not self._callables.is_upstream(tool) and not self._callables.unusable & {tool, tool.partition(".")[0]}:
                hint = did_you_mean(tool, self._callables.schemas)
                self._findings.problem((*path, "tool"), f"there is no function {tool}{hint}")
            return
        parameters: dict[str, Any] = schema["properties"]
        for name in args:
            if name not in parameters:
                self._findings.problem(
                    (*path, "args", name), f"{tool} has no parameter {name}{did_you_mean(name, parameters)}"
                )
        for name in schema.get("required", ()):
            if name not in args:
                self._findings.problem((*path, "args"), f"{tool} needs {name}")


def _check_whole(path: KeyPath, pair: Pair, name: str, unread: frozenset[str], findings: Findings) -> None:
    if pair.kind is Kind.COMPENSABLE and not pair.undo and not unread & {"kind", "undo"}:
        findings.problem(path, _NOTHING_UNDOES)
    repeatable = pair.idempotent or pair.has_probe
    if pair.kind is Kind.RETRIABLE and not repeatable and not unread & {"kind", "idempotent", "probe"}:
        findings.problem(path, "a retriable tool cannot be repeated blindly: say idempotent = true, or give it a probe")
    try:
        plan = UndoPlan.of(pair)
    except TemplateError:
        return  # its problems are noted where they stand
    if not pair.has_probe and "probe" not in unread and any(entry.names_result for entry in plan.entries):
        whose = "undo" if path[0] == "tools" else f"the undo of {name}"
        findings.warn(path, f"{whose} names result: a lost reply would go to a person; add a probe")


def _safe_if_absent(undo: UndoTable, callables: Callables) -> bool:
    """Whether it is harmless where the step never took effect; of an upstream's tool nobody has said so (S6.8)."""
    usually = undo.tool is None or not callables.is_upstream(undo.tool)
    return usually if undo.safe_if_absent is None else undo.safe_if_absent


def _entry(undo: UndoTable, callables: Callables) -> UndoEntry:
    if undo.tool is not None:
        action, message = PartAction.CALL, ""
    elif undo.manual is not None:
        action, message = PartAction.MANUAL, undo.manual
    elif undo.leave is not None:
        action, message = PartAction.LEAVE, undo.leave
    else:
        action, message = PartAction.NOTHING, ""
    return UndoEntry(
        action=action,
        tool=undo.tool or "",
        target_id=callables.target(undo.tool or ""),
        args=undo.args,
        when=undo.when,
        each=undo.each,
        message=message,
        urgency=Urgency(undo.urgency),
        idempotent=not callables.is_upstream(undo.tool or "") if undo.idempotent is None else undo.idempotent,
        timeout_s=undo.timeout_s,
        retry=UNDO_RETRY if undo.retry is None else _retry(undo.retry, UNDO_RETRY),
    )


def _retry(table: RetryTable, usual: Retry) -> Retry:
    first_delay_s = usual.first_delay_s if table.first_delay_s is None else table.first_delay_s
    max_delay_s = max(usual.max_delay_s, first_delay_s) if table.max_delay_s is None else table.max_delay_s
    return Retry(attempts=table.attempts, first_delay_s=min(first_delay_s, max_delay_s), max_delay_s=max_delay_s)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _strings(item)


def _inner(path: str) -> KeyPath:
    """Return the path inside a template, as the binding writes it (`.args[0]`), as keys."""
    found: list[tuple[str, str]] = re.findall(r"\[(\d+)\]|\.?([^.\[\]]+)", path)
    return tuple(int(index) if index else name for index, name in found)
