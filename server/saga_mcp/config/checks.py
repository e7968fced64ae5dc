"""What is wrong with one table of `[tools]`: names, expressions, and the calls that it makes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from saga_mcp.config.findings import Findings
from saga_mcp.config.models import CaptureTable, GuardTable, ReadTable, ToolTable, UndoTable
from saga_mcp.config.problems import KeyPath, did_you_mean
from saga_mcp.config.validate import Read
from saga_mcp.domain.values import JsonValue, Kind
from saga_mcp.tools.binding import Path, TemplateError, compile_condition, compile_template
from saga_mcp.tools.declared import TOLD, DeclaredTool
from saga_mcp.tools.secret import secrets_in
from saga_mcp.tools.undo_plan import AT_SENDING, late_args
from saga_mcp.tools.variables import AFTER_OUTCOME as VARIABLES
from saga_mcp.tools.variables import BEFORE_INTENT, LATER, MEMBERS, NOW

_ELSEWHERE = re.compile(r"\$\{\s*(env|file):")


@dataclass(frozen=True, slots=True)
class Callables:
    """What undos may call.

    Attributes:
        schemas: The JSON Schema of the arguments of each function, by name in the config.
        targets: Where each acts (S1.2), by name in the config.
        upstreams: Where the tools of each upstream act, by its name. What arguments they take, only they know.
        unusable: Names of `[python]` and other tables that could not be read, and of functions (`crm.create_lead`) that
            are not there: what they would be is not known.
        read_only: Which of them only read.
        lasting: Names of the upstreams whose calls may go on where this process has ended.
        judged: Names of the arguments that rules over results look at; an empty one: all.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    targets: Mapping[str, str]
    upstreams: Mapping[str, str]
    unusable: frozenset[str]
    read_only: frozenset[str] = frozenset()
    lasting: frozenset[str] = frozenset()
    judged: frozenset[str] = frozenset()

    def target(self, tool: str) -> str:
        """Where a tool acts; empty where it is not known."""
        return self.targets.get(tool) or self.upstreams.get(tool.partition(".")[0], "")

    def outlives_us(self, tool: str) -> bool:
        """Whether a call of it may go on where this process has ended."""
        return tool.partition(".")[0] in self.lasting

    def is_upstream(self, tool: str) -> bool:
        """Whether it is a tool of an upstream, of which nothing is assumed (S6.4, S6.8)."""
        return tool.partition(".")[0] in self.upstreams


class Check:
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

    def cases(self) -> None:
        """Check when each case holds."""
        for number, case in enumerate(self._read.table.cases or ()):
            self._check_template((*self._path, "cases", number, "when"), case.when, BEFORE_INTENT, condition=True)

    def deadline(self, deadline_s: float, timeout_s: float) -> None:
        """Check that a call counts as running at least as long as it is waited for."""
        if deadline_s < timeout_s and not self._read.unread & {"timeout_s", "hard_deadline_s"}:
            self._findings.problem((*self._path, "hard_deadline_s"), f"is shorter than timeout_s, {timeout_s:g}")

    def undos(self, kind: Kind) -> None:
        """Check what undoes a tool of this kind."""
        undos = self._read.table.undo
        if kind is not Kind.COMPENSABLE and undos is not None:
            self._findings.problem((*self._path, "undo"), f"a {kind} tool has no undo; drop it, or the kind")
        for number, undo in enumerate(undos or ()):
            self._check_undo(number, undo)

    def _check_undo(self, number: int, undo: UndoTable) -> None:
        path: KeyPath = (*self._path, "undo") if self._one_undo else (*self._path, "undo", number)
        item = frozenset({"item"}) if undo.each else frozenset[str]()
        inside = VARIABLES | item
        fixed: dict[str, Any] = {}
        for name, value in undo.args.items():
            if undo.read is not None and self._names(value, AT_SENDING) & {"read"}:
                self._check_template((*path, "args", name), value, LATER | item | {"read"})
            elif not late_args({name: value}):
                fixed[name] = value
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
        if undo.read is not None:
            self.reads((*path, "read"), undo.read, LATER | item)
        if undo.probe is not None:
            self.reads((*path, "probe"), undo.probe, LATER)
            self._check_template((*path, "probe", "landed"), undo.probe.landed, LATER | NOW, condition=True)
        self._check_template((*path, "done_when"), undo.done_when, LATER | NOW, condition=True)
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
        names = self._names(cast("JsonValue", undo.args), AT_SENDING)
        return (
            not self._has("guard")
            and undo.safe_if_absent is None
            and safe_if_absent(undo, self._callables)
            and not names & {"result", "text", "item"}
        )

    def looks(self, kind: Kind) -> None:
        """Check what is read for the tool, and how it is judged."""
        table = self._read.table
        for key in ("capture", "after", "guard"):
            if kind is not Kind.COMPENSABLE and getattr(table, key) is not None:
                self._findings.problem((*self._path, key), f"a {kind} tool has no {key}: it has no undo")
        if table.capture is not None:
            self._captures("capture", table.capture, BEFORE_INTENT)
        if table.after is not None:
            self._captures("after", table.after, VARIABLES - {"after"})
        if table.guard is not None:
            self._guard(table.guard)
        if table.probe is not None:
            path: KeyPath = (*self._path, "probe")
            self.reads(path, table.probe, LATER)
            self._check_template((*path, "landed"), table.probe.landed, LATER | NOW, condition=True)
            self._check_template((*path, "result"), table.probe.result, LATER | NOW)
        self._check_template((*self._path, "approval"), table.approval, BEFORE_INTENT, condition=True)
        if kind is Kind.READ_ONLY and table.approval:
            self._findings.problem((*self._path, "approval"), "a read_only tool is never asked about; drop it")
        if table.resource:
            self._check_template((*self._path, "resource"), table.resource, BEFORE_INTENT)
            if kind is Kind.READ_ONLY:
                self._findings.problem((*self._path, "resource"), "a read_only tool holds nothing: it is no step")

    def secrets(self) -> None:
        """Check the arguments that are shown to nobody."""
        table = self._read.table
        takes = self._members(self._tool, "args") if self._tool is not None else None
        for place, name in enumerate(table.secret):
            if takes is not None and name not in takes:
                message = f"there is no parameter {name}{did_you_mean(name, takes)}"
                self._findings.problem((*self._path, "secret", place), message)
        secret = secret_of(table, () if self._tool is None else self._tool.pair.secret)
        resource = table.resource or ("" if self._tool is None else self._tool.pair.resource)
        for name in secrets_in(resource, secret):
            key = "resource" if table.resource else "secret"
            self._findings.problem((*self._path, key), f"{name} is secret, and {TOLD}")
        for name in table.force.keys() & set(secret):
            message = f"{name} is secret, and what is forced is frozen with each pair: give it to the server behind it"
            self._findings.problem((*self._path, "force", name), message)

    def _captures(self, key: str, table: CaptureTable, variables: frozenset[str]) -> None:
        path: KeyPath = (*self._path, key)
        self.reads(path, table, variables)
        for name, condition in (("absent_when", table.absent_when), ("exact_when", table.exact_when)):
            self._check_template((*path, name), condition, variables | NOW, condition=True)

    def _guard(self, table: GuardTable) -> None:
        path: KeyPath = (*self._path, "guard")
        if table.tool is None:
            if not self._has("capture"):
                self._findings.problem(path, "nothing is captured that could be unchanged: give the tool a capture")
            return
        self.reads(path, ReadTable(tool=table.tool, args=table.args), LATER)
        for name, condition in (("as_left", table.as_left), ("as_before", table.as_before)):
            self._check_template((*path, name), condition, LATER | NOW, condition=True)

    def reads(self, path: KeyPath, table: ReadTable, variables: frozenset[str]) -> None:
        """Check a call of a tool that has to be read-only."""
        self._check_template((*path, "args"), cast("JsonValue", table.args), variables)
        self._check_call(path, table.tool, table.args)
        owner = table.tool.partition(".")[0]
        known = table.tool in self._callables.schemas or self._callables.is_upstream(table.tool)
        if known and table.tool not in self._callables.read_only:
            where = f'name it in upstreams.{owner}.read_only, or give it kind = "read_only"'
            say = where if self._callables.is_upstream(table.tool) else 'give it kind = "read_only"'
            self._findings.problem((*path, "tool"), f"{table.tool} is not known to be read-only; {say}")

    def arguments(self) -> None:
        """Check the arguments that the server sets itself."""
        table = self._read.table
        for name in (*table.force, *((table.key_arg,) if table.key_arg else ())):
            key: KeyPath = ("key_arg",) if name == table.key_arg else ("force", name)
            known = self._members(self._tool, "args") if self._tool is not None else None
            if known is not None and name not in known:
                tool = "" if self._tool is None else self._tool.name
                self._findings.problem(
                    (*self._path, *key), f"{tool} has no parameter {name}{did_you_mean(name, known)}"
                )

    def _names(self, value: JsonValue, variables: frozenset[str]) -> frozenset[str]:
        try:
            return compile_template(value, variables=variables).names
        except TemplateError:
            return frozenset()  # noted where it stands

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
        for variable, key in (("capture", "capture"), ("after", "after")):
            if variable in compiled.names and not self._has(key):
                self._findings.problem(path, f"nothing is read for {variable}: give the tool {key} = {{ tool = ... }}")
        for each in compiled.paths:
            self._check_path(path, each)

    def _has(self, key: str) -> bool:
        if key in self._read.unread or getattr(self._read.table, key) is not None:
            return True
        return self._tool is not None and getattr(self._tool.pair, key) is not None

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


def secret_of(table: ToolTable, coded: Collection[str]) -> tuple[str, ...]:
    """Return the arguments that are shown to nobody; what the table says goes before what the code does."""
    return tuple(table.secret if "secret" in table.model_fields_set else coded)


def safe_if_absent(undo: UndoTable, callables: Callables) -> bool:
    """Whether it is harmless where the step never took effect; of an upstream's tool nobody has said so (S6.8)."""
    usually = undo.tool is None or not callables.is_upstream(undo.tool)
    return usually if undo.safe_if_absent is None else undo.safe_if_absent


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
