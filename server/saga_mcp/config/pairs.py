"""From tables of `[tools]` to pairs: what the config says is laid over what the author said, and checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

from saga_mcp.config.checks import Callables, Check, safe_if_absent, secret_of
from saga_mcp.config.findings import Findings
from saga_mcp.config.models import (
    CaptureTable,
    CaseTable,
    GuardTable,
    ReadTable,
    RetryTable,
    ToolTable,
    UndoProbeTable,
    UndoTable,
)
from saga_mcp.config.problems import KeyPath
from saga_mcp.config.validate import Read
from saga_mcp.domain.repeats import OnRepeat
from saga_mcp.domain.values import JsonValue, Kind, OnError, PartAction, Urgency
from saga_mcp.tools.binding import TemplateError
from saga_mcp.tools.declared import DeclaredRegistry, DeclaredTool, declare, seen_by_probe
from saga_mcp.tools.pair import Capture, Case, Guard, KeyFormat, Pair, Probe, ReadCall, UndoEntry
from saga_mcp.tools.secret import with_secrets
from saga_mcp.tools.undo_plan import UndoPlan
from saga_tools import Retry, ToolRegistry
from saga_tools.server import UNDO_RETRY, usual_retry

_OF_UPSTREAMS = frozenset({"failed_when", "no_effect_when", "result"})
"""Keys that read the answers of a server."""
_NOTHING_UNDOES = (
    'nothing undoes it: give it undo, or say kind = "read_only", "pivot" (cannot be undone) or "retriable" '
    "(runs after the pivot until it succeeds)"
)


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
            pair = _with_secrets(tool.pair, tool.pair.secret, tool, callables)
            tools.append(replace(tool, pair=pair, governed=not plain, offered=not plain))
        else:
            table = read.table
            for key in sorted(table.model_fields_set & _OF_UPSTREAMS):
                findings.problem((*path, key), "belongs to tools of an upstream: a function raises where it fails")
            Check(path, tool, read, callables, findings).cases()
            pair = _by_case(path, read, partial(_overlaid, tool, callables, findings))
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
        if tools[-1].governed and not tools[-1].pair.cases:
            unread = frozenset[str]() if read is None else read.unread
            where: KeyPath = path if read else ("python", name)
            _check_whole(where, tools[-1].pair, tools[-1].registered.name, unread, findings)
    return replace(coded, tools=tuple(tools))


def check_alone(key: str, read: Read[ToolTable], callables: Callables, findings: Findings) -> None:
    """Check what can be said of a table whose function cannot be looked at."""
    _Alone(("tools", key), read, callables, findings).check()


def declare_alone(base: Pair, read: Read[ToolTable], callables: Callables, findings: Findings) -> Pair:
    """Return the pair of a tool that only the config speaks of.

    Args:
        base: What is known of it without its table.
        read: Its table.
        callables: What undos may call.
        findings: Where problems go.
    """
    path: KeyPath = ("tools", base.tool)
    Check(path, None, read, callables, findings).cases()
    return _by_case(path, read, lambda where, each: _Alone(where, each, callables, findings).pair(base))


class _Alone:
    """One table of `[tools]` whose tool cannot be looked at."""

    def __init__(self, path: KeyPath, read: Read[ToolTable], callables: Callables, findings: Findings) -> None:
        self._path = path
        self._read = read
        self._callables = callables
        self._findings = findings

    def check(self) -> None:
        table = self._read.table
        check = Check(self._path, None, self._read, self._callables, self._findings)
        if table.timeout_s is not None:
            check.deadline(table.hard_deadline_s or table.timeout_s, table.timeout_s)
        kind = Kind.COMPENSABLE if table.kind is None else Kind(table.kind)
        check.undos(kind)
        check.looks(kind)
        check.secrets()

    def pair(self, base: Pair) -> Pair:
        self.check()
        table, callables = self._read.table, self._callables
        kind = base.kind if table.kind is None else Kind(table.kind)
        timeout_s = table.timeout_s or base.timeout_s
        undos = (table.undo or ()) if kind is Kind.COMPENSABLE else ()
        pair = replace(
            base,
            kind=kind,
            undo=tuple(_entry(undo, callables) for undo in undos),
            safe_if_absent=bool(undos) and all(safe_if_absent(undo, callables) for undo in undos),
            idempotent=bool(table.idempotent),
            retry=_call_retry(table, kind),
            timeout_s=timeout_s,
            hard_deadline_s=table.hard_deadline_s or 10 * timeout_s,
            settle_s=base.settle_s if table.settle_s is None else table.settle_s,
        )
        pair = _with_secrets(_looking(pair, table, callables), table.secret, None, callables)
        _check_whole(self._path, pair, base.tool.partition(".")[2], self._read.unread, self._findings)
        return pair


def _by_case(path: KeyPath, read: Read[ToolTable], pair_of: Callable[[KeyPath, Read[ToolTable]], Pair]) -> Pair:
    """The pair of a table; one with cases is what its cases are, and to agents the most that a call may come to."""
    if not read.table.cases:
        return pair_of(path, read)
    written = cast("list[object]", read.written.get("cases", []))
    cases = tuple(
        Case(when=case.when, pair=pair_of((*path, "cases", number), _as_table(read, case, written[number])))
        for number, case in enumerate(read.table.cases)
    )
    most = max(cases, key=lambda case: _REACH.index(case.pair.kind)).pair
    return replace(most, cases=cases)


_REACH = (Kind.READ_ONLY, Kind.RETRIABLE, Kind.COMPENSABLE, Kind.PIVOT)
"""Kinds by how much a call of a tool may come to."""


def _as_table(read: Read[ToolTable], case: CaseTable, written: object) -> Read[ToolTable]:
    """A case as if the tool were nothing else."""
    said = {name: getattr(case, name) for name in CaseTable.model_fields if name != "when"}
    table = read.table.model_copy(update={"cases": None, **said})
    inside = cast("dict[str, object]", written) if isinstance(written, dict) else dict[str, object]()
    unread = read.unread | said.keys() if "cases" in read.unread else read.unread
    return Read(table, unread, inside)


def _overlaid(
    tool: DeclaredTool, callables: Callables, findings: Findings, path: KeyPath, read: Read[ToolTable]
) -> Pair:
    pair = _Overlay(path, tool, read, callables, findings).pair()
    pair = _with_secrets(pair, secret_of(read.table, pair.secret), tool, callables)
    if "cases" in path:
        _check_whole(path, pair, tool.registered.name, read.unread, findings)
    return pair


def _with_secrets(pair: Pair, secret: Collection[str], tool: DeclaredTool | None, callables: Callables) -> Pair:
    probed = () if tool is None else seen_by_probe(tool.registered)
    return with_secrets(pair, secret, {*probed, *callables.judged})


class _Overlay:
    """One table of `[tools]`, laid over the pair of the code."""

    def __init__(
        self, path: KeyPath, tool: DeclaredTool, read: Read[ToolTable], callables: Callables, findings: Findings
    ) -> None:
        self._tool = tool
        self._table = read.table
        self._callables = callables
        self._check = Check(path, tool, read, callables, findings)

    def pair(self) -> Pair:
        table, coded = self._table, self._tool.pair
        kind = coded.kind if table.kind is None else Kind(table.kind)
        timeout_s = table.timeout_s or coded.timeout_s
        coded_deadline_s = self._tool.registered.traits.hard_deadline_s
        deadline_s = table.hard_deadline_s or coded_deadline_s or 10 * timeout_s
        self._check.deadline(deadline_s, timeout_s)
        self._check.undos(kind)
        self._check.looks(kind)
        self._check.arguments()
        self._check.secrets()
        changed = replace(
            coded,
            kind=kind,
            idempotent=coded.idempotent if table.idempotent is None else table.idempotent,
            retry=_call_retry(table, kind, self._tool.registered.traits.retry),
            timeout_s=timeout_s,
            hard_deadline_s=float(deadline_s),
            settle_s=coded.settle_s if table.settle_s is None else table.settle_s,
        )
        changed = _looking(changed, table, self._callables)
        if kind is not Kind.COMPENSABLE:
            return replace(changed, undo=(), safe_if_absent=False)
        if table.undo is None:
            return changed
        return replace(
            changed,
            undo=tuple(_entry(undo, self._callables) for undo in table.undo),
            safe_if_absent=all(safe_if_absent(undo, self._callables) for undo in table.undo),
        )


def _looking(pair: Pair, table: ToolTable, callables: Callables) -> Pair:
    """The pair with what its table says is read for it, and sent with it."""
    undoable = pair.kind is Kind.COMPENSABLE
    return replace(
        pair,
        capture=(pair.capture if table.capture is None else _capture(table.capture, callables)) if undoable else None,
        after=(pair.after if table.after is None else _capture(table.after, callables)) if undoable else None,
        guard=(pair.guard if table.guard is None else _guard(table.guard, callables)) if undoable else None,
        probe=pair.probe if table.probe is None else _probe(table.probe, callables, table.probe.result),
        has_probe=pair.has_probe or table.probe is not None,
        resource=table.resource or pair.resource,
        approval=table.approval if "approval" in table.model_fields_set else pair.approval,
        key_arg=table.key_arg or pair.key_arg,
        key_format=KeyFormat(table.key_format),
        force=table.force or pair.force,
        not_restored=table.not_restored or pair.not_restored,
    )


def _call(table: ReadTable, callables: Callables) -> ReadCall:
    return ReadCall(tool=table.tool, args=table.args, target_id=callables.target(table.tool))


def _capture(table: CaptureTable, callables: Callables) -> Capture:
    return Capture(
        call=_call(table, callables),
        absent_when=table.absent_when,
        exact_when=table.exact_when,
        max_bytes=table.max_bytes,
    )


def _guard(table: GuardTable, callables: Callables) -> Guard:
    call = None if table.tool is None else _call(ReadTable(tool=table.tool, args=table.args), callables)
    return Guard(call=call, as_left=table.as_left, as_before=table.as_before, ignore_order=table.ignore_order)


def _probe(table: UndoProbeTable, callables: Callables, result: JsonValue = None) -> Probe:
    return Probe(call=_call(table, callables), landed=table.landed, result=result)


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
    whose = "undo" if path[0] == "tools" else f"the undo of {name}"
    if not pair.has_probe and "probe" not in unread and any(entry.names_result for entry in plan.entries):
        findings.warn(path, f"{whose} names result: a lost reply would go to a person; add a probe")
    if pair.has_probe and any(entry.names_text for entry in plan.entries):
        findings.warn(path, f"{whose} names text, which no probe tells: a lost reply would go to a person; name result")


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
        outlives_us=callables.outlives_us(undo.tool or ""),
        args=undo.args,
        when=undo.when,
        each=undo.each,
        message=message,
        urgency=Urgency(undo.urgency),
        idempotent=not callables.is_upstream(undo.tool or "") if undo.idempotent is None else undo.idempotent,
        timeout_s=undo.timeout_s,
        retry=UNDO_RETRY if undo.retry is None else _retry(undo.retry, UNDO_RETRY),
        read=None if undo.read is None else _call(undo.read, callables),
        probe=None if undo.probe is None else _probe(undo.probe, callables),
        done_when=undo.done_when,
    )


def _call_retry(table: ToolTable, kind: Kind, coded: Retry | None = None) -> Retry:
    if table.retry is not None:
        return _retry(table.retry, Retry())
    return coded or usual_retry(kind.value)


def _retry(table: RetryTable, usual: Retry) -> Retry:
    first_delay_s = usual.first_delay_s if table.first_delay_s is None else table.first_delay_s
    max_delay_s = max(usual.max_delay_s, first_delay_s) if table.max_delay_s is None else table.max_delay_s
    return Retry(attempts=table.attempts, first_delay_s=min(first_delay_s, max_delay_s), max_delay_s=max_delay_s)
