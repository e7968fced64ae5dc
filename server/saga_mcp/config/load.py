"""From a config file to what the server is made of, or to every problem that keeps it from being served."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from saga_mcp.config.alerts import Receiver, read_alerts
from saga_mcp.config.checks import Callables
from saga_mcp.config.code import CodeUnusable, function_in, load_file, load_module, registry_in
from saga_mcp.config.database import default_database, default_realm, read_database
from saga_mcp.config.filled import Filling
from saga_mcp.config.findings import Findings
from saga_mcp.config.http import Shared, read_shared
from saga_mcp.config.invariants import judged, read_invariants
from saga_mcp.config.keys import read_keys
from saga_mcp.config.models import PythonTable, SagaTable, ToolTable
from saga_mcp.config.pairs import check_alone, declare_with
from saga_mcp.config.places import this_host
from saga_mcp.config.presets import lay_presets
from saga_mcp.config.problems import ConfigInvalid, ConfigProblem, KeyPath, did_you_mean
from saga_mcp.config.source import read_config
from saga_mcp.config.temporal import read_temporal
from saga_mcp.config.upstreams import Upstreams
from saga_mcp.config.validate import Read, validate
from saga_mcp.domain.values import OnError, OnIdle, OnUndoFailure
from saga_mcp.engine.drivers.temporal.place import TemporalPlace
from saga_mcp.engine.port import EngineSettings
from saga_mcp.log.place import LogPlace, ServerPlace
from saga_mcp.log.sealing import Keyring
from saga_mcp.tools.declared import DeclaredRegistry, problems_of, target_id
from saga_mcp.tools.rules import WrittenRule
from saga_mcp.tools.upstream.declared import DeclaredUpstream
from saga_tools import ToolRegistry
from saga_tools.server import add, registered

_SHARED = ("http", "auth", "teams", "limits")
_SECTIONS = ("saga", "python", "upstreams", "tools", "invariants", "alerts", "temporal", *_SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """A config without problems."""

    path: Path
    settings: EngineSettings
    database: LogPlace
    """Where the saga log is."""
    database_is_default: bool
    """The folder of the database may have to be made."""
    realm_is_default: bool
    """It is derived from the place of the file: moved, it is another one."""
    keyring: Keyring = field(default_factory=Keyring)
    """What values in the saga log are encrypted with."""
    keep_s: float = 0.0
    """How long a saga is kept after its end; 0: for ever."""
    wipe_values: bool = False
    """Whether values go once they are needed no more."""
    registries: tuple[DeclaredRegistry, ...]
    upstreams: tuple[DeclaredUpstream, ...]
    invariants: tuple[WrittenRule, ...]
    alerts: Receiver | None = None
    """Who is told of what waits for a person; None: nobody, or the config was read without its code."""
    temporal: TemporalPlace | None = None
    """Where the Temporal server is that drives this realm's sagas; None: its processes do."""
    has_alerts: bool = False
    """Whether it has `[alerts]`, read or not."""
    shared: Shared = field(default_factory=Shared)
    """How it is served over HTTP, and to whom."""
    warnings: tuple[ConfigProblem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A config as far as it can be read, problems and all."""

    path: Path
    content: Mapping[str, Any]
    """What the file says, with the tables of its presets."""
    registries: tuple[DeclaredRegistry, ...]
    upstreams: tuple[DeclaredUpstream, ...]
    """What in it is wrong is among the findings, and may still stand in their pairs."""
    loaded: LoadedConfig | None
    """None: there are problems."""
    findings: Findings


def load_config(path: Path, environ: Mapping[str, str], *, code: bool = True) -> LoadedConfig:
    """Read a config and load the code that it names.

    Args:
        path: The file, as `find_config` returns it.
        environ: What `${env:X}` is filled in from.
        code: False reads what says where the log is, and neither loads nor checks the tools: a person has to be able
            to look at what is open while the code is broken.

    Raises:
        ConfigInvalid: Every problem at once.
    """
    survey = survey_config(path, environ, code=code)
    if survey.loaded is None:
        raise ConfigInvalid(path.resolve(), survey.findings.problems, survey.findings.warnings)
    return survey.loaded


def survey_config(path: Path, environ: Mapping[str, str], *, code: bool = True) -> Survey:
    """Read a config as `load_config` does, for whoever goes on where it has problems.

    Raises:
        ConfigInvalid: It cannot be read at all.
    """
    path = path.resolve()
    content, lines = read_config(path)
    findings = Findings(lines)
    for key in content:
        if key not in _SECTIONS:
            findings.problem((key,), f"unknown table{did_you_mean(key, _SECTIONS)}")
    laid = lay_presets(content, findings) if code else content
    read = validate(SagaTable, content.get("saga", {}), ("saga",), findings)
    saga = read.table if read else SagaTable.model_validate({})
    filling = Filling(path.parent, environ, findings)
    realm = saga.name or default_realm(path)
    written = saga.database
    database = read_database(written, filling, findings) if written else default_database(realm)
    host = this_host(environ, findings, one_of_many=isinstance(database, ServerPlace))
    registries, upstreams = _Tools(filling, laid, findings, host).load(OnError(saga.on_error)) if code else ((), ())
    taken = {rule.name for each in registries for rule in registered(each.source).invariants}
    invariants = read_invariants(content.get("invariants", []), taken, findings) if code else ()
    receiver = read_alerts(content["alerts"], filling, findings) if code and "alerts" in content else None
    place = read_temporal(content.get("temporal", {}), filling, findings)
    shared = read_shared(content, findings)
    keyring = read_keys(saga.encryption_keys, filling, findings)
    loaded = (
        None
        if findings.problems or database is None
        else LoadedConfig(
            path=path,
            settings=EngineSettings(
                realm=realm,
                host=host,
                on_error=OnError(saga.on_error),
                on_undo_failure=OnUndoFailure(saga.on_undo_failure),
                saga_id_required=saga.saga_id == "required",
                reply_within_s=saga.reply_within_s,
                probe_for_s=saga.probe_for_s,
                idle_flag_s=saga.idle_flag_s,
                idle_end_s=saga.idle_end_s,
                approval_expires_s=saga.approval_expires_s,
                ask_in_client=saga.ask_in_client,
                on_idle=OnIdle(saga.on_idle),
                revert_window_s=saga.revert_window_s,
                agent_may_revert=saga.agent_may_revert,
                audit_reads=saga.audit_reads,
                replay_window_s=saga.replay_window_s,
                running_steps=shared.running_steps,
            ),
            database=database,
            database_is_default=not written,
            realm_is_default=not saga.name,
            keyring=keyring,
            keep_s=saga.keep_s,
            wipe_values=saga.wipe_values,
            registries=registries,
            upstreams=upstreams,
            invariants=invariants,
            alerts=receiver,
            temporal=place if saga.driver == "temporal" else None,
            has_alerts="alerts" in content,
            shared=shared,
            warnings=findings.warnings,
        )
    )
    return Survey(path=path, content=laid, registries=registries, upstreams=upstreams, loaded=loaded, findings=findings)


class _Tools:
    """`[python]`, `[upstreams]` and `[tools]`."""

    def __init__(self, filling: Filling, content: Mapping[str, Any], findings: Findings, host: str) -> None:
        self._folder = filling.folder
        self._findings = findings
        self._python = self._tables(content, "python")
        self._tools = self._tables(content, "tools")
        self._invariants = content.get("invariants")
        self._upstreams = Upstreams(self._tables(content, "upstreams"), filling, findings, host)
        self._unusable = set(self._upstreams.unusable)
        self._sources: dict[str, tuple[ToolRegistry, bool]] = {}

    def load(self, on_error: OnError) -> tuple[tuple[DeclaredRegistry, ...], tuple[DeclaredUpstream, ...]]:
        for name, table in self._python.items():
            if name in self._upstreams.names:
                self._findings.problem(("upstreams", name), f"has the name of python.{name}; rename one")
            source = self._source(name, table)
            if source is None:
                self._unusable.add(name)
            else:
                self._sources[name] = source
        tables, alone = self._tables_by_registry()
        schemas = self._schemas()
        targets = {each: self._target(each.partition(".")[0]) for each in schemas}
        read_only = self._read_only(tables)
        callables = Callables(
            schemas,
            targets,
            self._upstreams.targets,
            frozenset(self._unusable),
            read_only,
            self._upstreams.lasting,
            judged(self._invariants),
        )
        for key, read in alone.items():
            check_alone(key, read, callables, self._findings)
        declared = tuple(
            self._upstreams.hosting.all_placed(
                declare_with(
                    name,
                    source,
                    tables.get(name, {}),
                    plain=plain,
                    on_error=on_error,
                    callables=callables,
                    findings=self._findings,
                )
            )
            for name, (source, plain) in self._sources.items()
        )
        upstreams = self._upstreams.declare(tables, on_error, callables)
        self._check_offered(declared, upstreams)
        self._warn_of_hidden(declared)
        return declared, upstreams

    def _tables(self, content: Mapping[str, Any], section: str) -> dict[str, object]:
        found: object = content.get(section, {})
        if isinstance(found, dict):
            return cast("dict[str, object]", found)
        self._findings.problem((section,), "must be a table")
        return {}

    def _source(self, name: str, content: object) -> tuple[ToolRegistry, bool] | None:
        """Return a registry, and whether it is one of plain functions."""
        path: KeyPath = ("python", name)
        if "." in name:
            self._findings.problem(path, "its name cannot hold a dot")
            return None
        read = validate(PythonTable, content, path, self._findings)
        if read is None or bool(read.table.path) == bool(read.table.module):
            return None
        table = read.table
        try:
            registry = self._registry(name, table)
        except CodeUnusable as unusable:
            self._findings.problem((*path, "path" if table.path else "module"), str(unusable))
            return None
        problems = problems_of(registry)
        for problem in problems:
            self._findings.problem(path, str(problem))
        if problems:
            return None
        return registry, bool(table.functions)

    def _registry(self, name: str, table: PythonTable) -> ToolRegistry:
        where, _, attribute = (table.path or table.module).rpartition(":")
        if not attribute.isidentifier() or not where:  # no attribute, or the colon of a Windows drive
            where, attribute = table.path or table.module, ""
        if bool(attribute) == bool(table.functions):
            raise CodeUnusable("name one registry in it, as in FILE.py:registry, or list functions")
        file = (self._folder / Path(where).expanduser()).resolve()
        module = load_file(file) if table.path else load_module(where)
        if attribute:
            return registry_in(module, attribute)
        registry = ToolRegistry()
        for place, each in enumerate(table.functions):
            try:
                function = cast("Callable[..., Any]", function_in(module, each))
            except CodeUnusable as unusable:
                self._findings.problem(("python", name, "functions", place), str(unusable))
                self._unusable.add(f"{name}.{each}")
            else:
                add(registry, function)
        return registry

    def _tables_by_registry(self) -> tuple[dict[str, dict[str, Read[ToolTable]]], dict[str, Read[ToolTable]]]:
        """Return the tables by registry and tool, and by key those whose function cannot be looked at."""
        found: dict[str, dict[str, Read[ToolTable]]] = {}
        alone: dict[str, Read[ToolTable]] = {}
        for key, content in self._tools.items():
            path: KeyPath = ("tools", key)
            read = validate(ToolTable, content, path, self._findings)
            registry, _, tool = key.partition(".")
            known = self._known(registry)
            if registry in self._upstreams.targets and tool:
                if read is not None:
                    found.setdefault(registry, {})[tool] = read
                continue
            if tool not in known and not self._unusable & {key, registry}:
                self._findings.problem(path, self._unknown(key))
            if read is not None and tool in known:
                found.setdefault(registry, {})[tool] = read
            elif read is not None and registry not in self._upstreams.names:
                alone[key] = read
        return found, alone

    def _known(self, registry: str) -> Collection[str]:
        return registered(self._sources[registry][0]).tools if registry in self._sources else ()

    def _unknown(self, key: str) -> str:
        registry, _, tool = key.partition(".")
        if registry in self._sources:
            names = [f"{registry}.{each}" for each in self._known(registry)]
            return f"python.{registry} has no tool {tool}{did_you_mean(key, names)}"
        hint = did_you_mean(registry, [*self._python, *self._upstreams.names])
        return f'there is no python.{registry}; keys are "NAME.function"{hint}'

    def _target(self, name: str) -> str:
        return target_id(self._sources[name][0].name or name)

    def _schemas(self) -> dict[str, Mapping[str, Any]]:
        schemas: dict[str, Mapping[str, Any]] = {}
        for name, (registry, _) in self._sources.items():
            source = registered(registry)
            for tool in source.tools.values():
                schemas[f"{name}.{tool.name}"] = tool.input_schema
            for undo in source.callables.values():
                schemas[f"{name}.{undo.name}"] = undo.arguments.schema
        return schemas

    def _read_only(self, tables: Mapping[str, Mapping[str, Read[ToolTable]]]) -> frozenset[str]:
        """Names of the tools that are said to change nothing."""
        said = {f"{owner}.{tool}": read.table.kind for owner, named in tables.items() for tool, read in named.items()}
        coded = {
            f"{name}.{tool.name}": tool.traits.kind
            for name, (registry, _) in self._sources.items()
            for tool in registered(registry).tools.values()
        }
        own = {tool for tool, kind in coded.items() if (said.get(tool) or kind) == "read_only"}
        theirs = {tool for tool, kind in said.items() if kind == "read_only"}
        return frozenset(own | theirs | self._upstreams.read_only)

    def _check_offered(self, declared: tuple[DeclaredRegistry, ...], upstreams: tuple[DeclaredUpstream, ...]) -> None:
        first: dict[str, str] = {}
        for registry in declared:
            for tool in registry.tools:
                if not (tool.governed and tool.offered):
                    continue
                other = first.setdefault(tool.registered.name, f"python.{registry.name}")
                if other != f"python.{registry.name}":
                    self._findings.problem(
                        ("python", registry.name),
                        f"offers `{tool.registered.name}`, and so does {other}; "
                        'rename one, with @registry.tool(name="...")',
                    )
        for upstream in upstreams:
            for each in upstream.tools:
                other = first.setdefault(each.offered, f"{upstream.name}.{each.tool}") if each.listed else ""
                if other not in {"", f"{upstream.name}.{each.tool}"}:
                    self._findings.problem(
                        ("upstreams", upstream.name),
                        f"offers `{each.offered}` ({each.tool}), and so does {other}; give it another prefix",
                    )

    def _warn_of_hidden(self, declared: tuple[DeclaredRegistry, ...]) -> None:
        used = {entry.tool for registry in declared for tool in registry.tools for entry in tool.pair.undo}
        for registry in declared:
            for tool in registry.tools:
                if not tool.governed and tool.name not in used:
                    name = tool.registered.name
                    self._findings.warn(
                        ("python", registry.name), f'"{name}" has no table in [tools], so it is not offered'
                    )
