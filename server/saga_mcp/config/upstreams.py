"""From `[upstreams]` to upstreams as they are declared: how each is reached, and which of its tools are governed.

Nothing is connected here. What a tool takes and gives only its server knows, so its schema is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from saga_mcp.config.checks import Callables
from saga_mcp.config.filled import Filling
from saga_mcp.config.findings import Findings
from saga_mcp.config.hosted import Hosting
from saga_mcp.config.models import Condition, ToolTable, UpstreamTable
from saga_mcp.config.pairs import declare_alone
from saga_mcp.config.places import places
from saga_mcp.config.problems import KeyPath
from saga_mcp.config.validate import Read, validate
from saga_mcp.domain.hosts import host_key
from saga_mcp.domain.repeats import OnRepeat
from saga_mcp.domain.values import Kind, OnError
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.binding import TemplateError
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.upstream.declared import (
    DeclaredUpstream,
    DeclaredUpstreamTool,
    Endpoint,
    Program,
    Scope,
    offered_name,
    target_id,
)
from saga_mcp.tools.upstream.elsewhere import outlives_us

_SAFE = Read(ToolTable.model_validate({}), frozenset(), {})
"""The table of a tool that is only named in `read_only`."""


_WEB = re.compile(r"https?://[^/?#]", re.IGNORECASE)
_NO_PLACES = frozenset({"PATH", "PYTHONPATH", "NODE_PATH"})
"""Variables that say where programs are, not what they work on."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """An upstream that could be read."""

    read: Read[UpstreamTable]
    place: Program | Endpoint
    target_id: str
    scope: Scope


class Upstreams:
    """The upstreams of one config.

    Args:
        tables: `[upstreams]`.
        filling: Fills in what they refer to.
        findings: Where problems go.
        host: This machine.
    """

    def __init__(self, tables: Mapping[str, object], filling: Filling, findings: Findings, host: str) -> None:
        self._findings = findings
        self._host = host
        self._filling = filling
        self.names = frozenset(tables)
        self._reached = {
            name: reached for name, table in tables.items() if (reached := self._read(name, table)) is not None
        }
        self.unusable = self.names - self._reached.keys()
        """Those that could not be read: what their tools would be is not known."""
        self.targets = {name: reached.target_id for name, reached in self._reached.items()}
        """Where the tools of each act (S1.2)."""
        self.read_only = frozenset(
            f"{name}.{tool}" for name, reached in self._reached.items() for tool in reached.read.table.read_only
        )
        """Names of the tools that change nothing."""
        self.lasting = frozenset(
            name for name, reached in self._reached.items() if outlives_us(reached.place, reached.scope)
        )
        """Those whose calls may go on where this process has ended."""
        of_machine = frozenset(name for name, reached in self._reached.items() if reached.scope == "host")
        self.hosting = Hosting(host, of_machine)

    def declare(
        self, tables: Mapping[str, Mapping[str, Read[ToolTable]]], on_error: OnError, callables: Callables
    ) -> tuple[DeclaredUpstream, ...]:
        """Return the upstreams with what `[tools]` says of their tools."""
        return tuple(
            self._declared(name, reached, tables.get(name, {}), on_error, callables)
            for name, reached in self._reached.items()
        )

    def _read(self, name: str, table: object) -> _Reached | None:
        path: KeyPath = ("upstreams", name)
        if "." in name:
            self._findings.problem(path, "its name cannot hold a dot")
            return None
        read = validate(UpstreamTable, table, path, self._findings)
        if read is None or bool(read.table.command) == bool(read.table.url):
            return None
        written = read.table
        if written.url:
            url = self._filling.text(written.url, (*path, "url"))
            headers = self._filled(written.headers, (*path, "headers"))
            if url is None or headers is None:
                return None
            if not _WEB.match(url):
                self._findings.problem((*path, "url"), "must be a URL that begins with http:// or https://")
                return None
            place: Program | Endpoint = Endpoint(url=url, headers=headers)
            where = [written.url, *places([url] if url != written.url else [])]
        else:
            program = self._program(written, path)
            if program is None:
                return None
            place = program
            filled = [arg for arg, was in zip(program.args, written.args, strict=True) if arg != was]
            named = [value for name, value in program.env.items() if name not in _NO_PLACES]
            where = [written.command, *written.args, str(program.cwd), *places([*filled, *named])]
        account = self._filling.text(written.account, (*path, "account"))
        if account is None:
            return None
        scope: Scope = written.scope or ("shared" if written.url else "host")
        host = host_key(self._host) if scope == "host" else ""
        return _Reached(read, place, target_id(where, account, scope, host), scope)

    def _program(self, written: UpstreamTable, path: KeyPath) -> Program | None:
        command = self._filling.text(written.command, (*path, "command"))
        args = [self._filling.text(arg, (*path, "args", place)) for place, arg in enumerate(written.args)]
        env = self._filled(written.env, (*path, "env"))
        cwd = self._filling.text(written.cwd, (*path, "cwd"))
        given = [arg for arg in args if arg is not None]
        for name in written.env:
            if not name or "=" in name or "\0" in name:
                self._findings.problem((*path, "env", name), "is no name that a variable can have")
                return None
        if command is None or env is None or cwd is None or len(given) < len(args):
            return None
        folder = (self._filling.folder / Path(cwd).expanduser()).resolve()
        if not folder.is_dir():
            self._findings.problem((*path, "cwd"), f"there is no folder {folder}")
            return None
        return Program(command=command, args=tuple(given), env=env, cwd=folder)

    def _filled(self, texts: Mapping[str, str], path: KeyPath) -> dict[str, str] | None:
        filled = {name: self._filling.text(text, (*path, name)) for name, text in texts.items()}
        present = {name: text for name, text in filled.items() if text is not None}
        return present if len(present) == len(filled) else None

    def _declared(
        self,
        name: str,
        reached: _Reached,
        tables: Mapping[str, Read[ToolTable]],
        on_error: OnError,
        callables: Callables,
    ) -> DeclaredUpstream:
        written = reached.read.table
        path: KeyPath = ("upstreams", name)
        rules = AnswerRules(
            failed_when=written.failed_when,
            no_effect_when=written.no_effect_when,
            error_means=written.error_means,
            result=written.result,
        )
        self._check_rules(path, rules, written.model_fields_set)
        prefix = name if written.prefix is None else written.prefix
        known = dict.fromkeys([*tables, *written.read_only])
        for place, tool in enumerate(written.tools or ()):
            if tool not in known:
                self._findings.problem(
                    (*path, "tools", place),
                    f'nothing says what {tool} is: give it [tools."{name}.{tool}"], or name it in read_only',
                )
        tools: list[DeclaredUpstreamTool] = []
        for tool in known:
            read = tables.get(tool, _SAFE)
            kind = Kind.READ_ONLY if tool in written.read_only else Kind.COMPENSABLE
            base = Pair(
                tool=f"{name}.{tool}",
                kind=kind,
                target_id=reached.target_id,
                outlives_us=name in self.lasting,
            )
            if tool in written.read_only and read.table.kind is None and (read.table.undo or read.table.cases):
                self._findings.problem(
                    ("tools", base.tool),
                    f"upstreams.{name}.read_only says that it changes nothing, and here is what undoes it: take it out "
                    "of there, or drop this",
                )
            own = _rules_of(read.table, rules)
            if tool in tables:
                self._check_rules(("tools", base.tool), own, read.table.model_fields_set)
            offered = tool in written.tools if written.tools is not None else True
            tools.append(
                DeclaredUpstreamTool(
                    tool=tool,
                    offered=offered_name(prefix, tool),
                    pair=self.hosting.placed(declare_alone(base, read, callables, self._findings)),
                    rules=own,
                    listed=offered and read.table.offer,
                    takes_step_key=on_error is OnError.HOLD or read.table.on_repeat is not None,
                    on_repeat=OnRepeat(read.table.on_repeat or "run"),
                )
            )
        if not tools and not written.trust_read_only_hint:
            self._findings.warn(path, "none of its tools is declared, so none is offered")
        return DeclaredUpstream(
            name=name,
            place=reached.place,
            target_id=reached.target_id,
            scope=reached.scope,
            prefix=prefix,
            rules=rules,
            tools=tuple(tools),
            trusts_hints=written.trust_read_only_hint,
            one_at_a_time=written.one_at_a_time,
            preset=written.preset,
        )

    def _check_rules(self, path: KeyPath, rules: AnswerRules, written: Collection[str]) -> None:
        singly: dict[str, AnswerRules] = {
            "failed_when": AnswerRules(failed_when=rules.failed_when),
            "no_effect_when": AnswerRules(no_effect_when=rules.no_effect_when),
            "result": AnswerRules(result=rules.result),
        }
        for key in singly.keys() & written:
            try:
                singly[key].compiled()
            except TemplateError as error:
                for problem in error.problems:
                    self._findings.problem((*path, key), str(problem))


def _rules_of(table: ToolTable, of_all: AnswerRules) -> AnswerRules:
    """What holds for one tool: its own word, else its upstream's."""

    def own(value: Condition | None, usual: Condition | None) -> Condition | None:
        return usual if value is None else value

    means = table.error_means
    effect = own(table.no_effect_when, None if means is not None else of_all.no_effect_when)
    return AnswerRules(
        failed_when=own(table.failed_when, of_all.failed_when) or False,
        no_effect_when=effect,
        error_means=means or of_all.error_means,
        result=of_all.result if table.result is None else table.result,
    )
