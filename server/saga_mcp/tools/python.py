"""The adapter of Python tools to the port: an author's functions as forward actions, undos and probes.

The only module that knows both what an author registers and what the engine asks for. Whatever a function does comes
back as an outcome (S4.5); nothing is raised but a cancellation from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import structlog

from saga_mcp.domain.errors import SagaError
from saga_mcp.domain.frozen import PartLimits, PartSpec
from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Kind, PartAction
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.declared import DeclaredRegistry, DeclaredTool
from saga_mcp.tools.hidden import completed, shown, without_key
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import (
    Absent,
    Arguments,
    CallContext,
    Landed,
    Missed,
    NoVerdict,
    Outcome,
    ProbeVerdict,
    StepFacts,
    ToolAnswer,
)
from saga_mcp.tools.running import Ended, Raised, Returned, ToolThreads, describe, run
from saga_mcp.tools.tool_listing import ToolListing
from saga_mcp.tools.truth import truth
from saga_mcp.tools.unsent import InvalidArguments
from saga_tools import (
    Call,
    NoEffect,
    SagaToolsError,
)
from saga_tools import InvalidArguments as UnfitArguments
from saga_tools.server import OnUndo, RegisteredTool, Report, registered

_log = structlog.get_logger(__name__)

_BESIDE_THE_PAIR = -1
"""In place of the number of an entry of its undo list."""


class LifespanFailed(SagaError):
    """What a registry's tools share could not be opened, so nothing can be served."""

    def __init__(self, registry: str, error: BaseException) -> None:
        self.registry = registry
        super().__init__(f"the lifespan of python.{registry} failed: {describe(error)}")


class PythonThreads:
    """The threads of this process's plain functions."""

    def __init__(self) -> None:
        self.forward = ToolThreads("saga tool")
        self.read = ToolThreads("saga read")
        """Read-only tools: one that hangs after its caller was answered must not keep a write from starting."""
        self.undo = ToolThreads("saga undo")
        """Undos and probes, which must find room when forward actions hang."""

    def let_go(self) -> None:
        """Let every wait for a thread be cancelled from now on: the process is ending."""
        self.forward.let_go()
        self.read.let_go()
        self.undo.let_go()


class PythonRegistry:
    """One `[python.NAME]` while it is served: its functions, and what its lifespan opened for them."""

    def __init__(self, declared: DeclaredRegistry, threads: PythonThreads) -> None:
        self.name = declared.name
        self.source = declared.source
        self.target_id = declared.target_id
        self.threads = threads
        self.deps: Any = None
        self._forwards = {tool.name: tool.registered for tool in declared.tools}

    def forward(self, name: str) -> RegisteredTool | None:
        """Return the forward action of that name in the config; it knows the types of its arguments and result."""
        return self._forwards.get(name)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Hold the lifespan open.

        Raises:
            LifespanFailed: it did not open.
        """
        async with contextlib.AsyncExitStack() as stack:
            if self.source.lifespan is not None:
                try:
                    manager = self.source.lifespan()
                    self.deps = await manager.__aenter__()
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    raise LifespanFailed(self.name, error) from error
                stack.push_async_callback(self._close, manager)
            yield

    async def _close(self, manager: contextlib.AbstractAsyncContextManager[Any]) -> None:
        try:
            await manager.__aexit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - authors' code; the sagas are settled, and the others have to close too
            _log.error("lifespan_failed_to_close", registry=self.name, error_type=type(error).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A governed Python function."""

    registry: PythonRegistry
    declared: DeclaredTool
    listing: ToolListing

    @classmethod
    def of(cls, registry: PythonRegistry, declared: DeclaredTool) -> PythonTool:
        """Adapt one declared tool."""
        registered = declared.registered
        listing = ToolListing(
            description=registered.description,
            input_schema=shown(registered.input_schema, declared.pair),
            output_schema=None if registered.output_schema is None else dict(registered.output_schema),
            title=registered.title or "",
            takes_step_key=declared.takes_step_key,
            on_repeat=declared.on_repeat,
        )
        return cls(registry=registry, declared=declared, listing=listing)

    @property
    def offered(self) -> str:
        """Its own name (DESIGN.md 5.3); the registry saw to it that every client accepts it."""
        return self.declared.registered.name

    @property
    def pair(self) -> Pair:
        """What is frozen at an intent."""
        return self.declared.pair

    @property
    def rules(self) -> AnswerRules:
        """How its errors are read today."""
        return self.declared.rules

    @property
    def stoppable(self) -> bool:
        """A coroutine is, a thread is not."""
        return self.declared.registered.is_async

    @property
    def reachable(self) -> bool:
        """It runs here."""
        return True

    async def reach(self, within_s: float) -> None:
        """It runs here."""
        del within_s

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        """Validate once, against the function's own model; defaults included.

        Raises:
            InvalidArguments: they do not fit; every problem at once.
        """
        try:
            decoded = self.declared.registered.decode(completed(arguments, self.pair))
        except UnfitArguments as unfit:
            raise InvalidArguments(tuple(map(str, unfit.problems))) from None
        return Arguments(without_key(dict(decoded.json), self.pair), decoded.kwargs)

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        """Do the forward action."""
        call = Call(
            key=context.key,
            saga_id=context.saga_id,
            step=context.number,
            attempt=context.attempt,
            deps=self.registry.deps,
            store_undo=_store_undo(self.registry, context),
            report=_report(context),
        )
        threads = self.registry.threads
        sort = threads.read if self.pair.kind is Kind.READ_ONLY else threads.forward
        ended = await call_registered(self.declared.registered, args, call, sort)
        if isinstance(ended, Returned):
            return landed(self.declared.registered, ended.value)
        return _missed(ended, context.rules or self.rules)

    def replay(self, result: JsonValue, kept: JsonValue) -> ToolAnswer:  # noqa: ARG002 - the port's signature
        """Return the answer of a stored result: what a Python tool says is made of nothing else."""
        return _answer(self.declared.registered, result)

    async def probe(self, step: StepFacts) -> ProbeVerdict:
        """Ask the pair's probe whether the step landed."""
        registered = self.declared.registered
        probe = registered.probe
        if probe is None:
            return NoVerdict(error="it has no probe any more")
        try:
            values = registered.kwargs_from_json(step.args, step.sealed)
        except SagaToolsError as error:
            return NoVerdict(error=schema_changed(error))
        kwargs = {name: values[name] for name in probe.parameters}
        if probe.call_parameter is not None:
            kwargs[probe.call_parameter] = call_beside(step, step.key, self.registry, "a probe")
        ended = await run(
            partial(probe.function, **kwargs), is_async=probe.is_async, threads=self.registry.threads.undo
        )
        if isinstance(ended, Raised):
            return NoVerdict(error=describe(ended.error))
        return _verdict(registered, ended.value)


async def call_registered(registered: RegisteredTool, args: Arguments, call: Call, threads: ToolThreads) -> Ended:
    """Call a registered function with decoded arguments."""
    try:
        decoded = cast("Mapping[str, Any] | None", args.native)
        kwargs = registered.kwargs_from_json(args.json) if decoded is None else dict(decoded)
    except SagaToolsError as error:
        return Raised(error, started=False)
    if registered.call_parameter is not None:
        kwargs[registered.call_parameter] = call
    return await run(partial(registered.function, **kwargs), is_async=registered.is_async, threads=threads)


def _report(context: CallContext) -> Report:
    loop = asyncio.get_running_loop()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        if context.report is not None:
            await _in(loop, context.report(progress, total, message))

    return report


async def _in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Do `work` in the engine's event loop, also for a plain tool: in its thread, under an event loop of its own."""
    if asyncio.get_running_loop() is loop:
        await work
    else:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def _store_undo(registry: PythonRegistry, context: CallContext) -> OnUndo:
    loop = asyncio.get_running_loop()

    async def store(function: Callable[..., object], arguments: Mapping[str, Any], /) -> None:
        undo = registered(registry.source).callable_for(function)
        retry = undo.traits.retry
        part = PartSpec(
            action=PartAction.CALL,
            tool=f"{registry.name}.{undo.name}",
            entry=_BESIDE_THE_PAIR,
            args=undo.arguments.encode(arguments),
            idempotent=undo.traits.idempotent,
            limits=PartLimits(
                timeout_s=float(undo.traits.timeout_s),
                attempts=retry.attempts,
                first_delay_s=float(retry.first_delay_s),
                max_delay_s=float(retry.max_delay_s),
            ),
        )

        async def register() -> None:
            await context.register_undo(part)

        await _in(loop, register())

    return store


def call_beside(step: StepFacts, key: str, registry: PythonRegistry, who: str) -> Call:
    """Return the `Call` of a function that is no forward action now."""

    async def refuse(function: Callable[..., object], arguments: Mapping[str, Any], /) -> None:
        del function, arguments
        raise SagaToolsError(f"{who} registers no undo")

    return Call(key=key, saga_id=step.saga_id, step=step.number, deps=registry.deps, store_undo=refuse)


def landed(registered: RegisteredTool, value: object) -> Landed:
    """Return the outcome of a function that returned `value`."""
    result = registered.encode_result(value)
    return Landed(answer=_answer(registered, result.json), result=result.json, exact=result.exact)


def _verdict(registered: RegisteredTool, found: object) -> ProbeVerdict:
    if found is None:
        return Absent()
    said = truth(found)
    if said is not False and registered.result.fits(found, is_bool=said is not None):
        return landed(registered, found)
    # Not the value: it may be secret.
    error = (
        f"its probe returned {'False' if said is False else f'a value of type {type(found).__name__}'}, which is no "
        f"result of `{registered.name}`: return what `{registered.name}` returned, or None where it did not happen"
    )
    return NoVerdict(error=error)


def _answer(registered: RegisteredTool, result: JsonValue) -> ToolAnswer:
    structured = registered.result.structured(result)
    text = json.dumps(structured, ensure_ascii=False)
    return ToolAnswer(content=(_text(text),), structured=cast("JsonValue", structured), has_structured=True)


def _missed(raised: Raised, rules: AnswerRules) -> Missed:
    error = describe(raised.error)
    known_absent = isinstance(raised.error, NoEffect) or not raised.started
    return Missed(
        answer=ToolAnswer(content=(_text(error),), is_error=True),
        effect=Effect.NONE if known_absent else effect_of_errors(rules),
        error=error,
    )


def effect_of_errors(rules: AnswerRules) -> Effect:
    """Return what an exception of a tool with these rules proves."""
    return Effect.NONE if rules.error_means == "no_effect" else Effect.UNKNOWN


def schema_changed(error: SagaToolsError) -> str:
    """Return what is said of stored values that today's types do not take."""
    return f"schema changed: {error}"


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
