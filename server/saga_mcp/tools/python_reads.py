"""Python functions that look at the world for other steps: read-only tools, captures and guards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.declared import DeclaredTool
from saga_mcp.tools.port import Arguments, ReadAnswer, ReadFailed, ReadOutcome, StepFacts
from saga_mcp.tools.python import PythonRegistry, call_beside, call_registered, landed, schema_changed
from saga_mcp.tools.python_undo import undo_of
from saga_mcp.tools.running import Raised, describe, run
from saga_tools import SagaToolsError
from saga_tools.server import RegisteredRead


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonReader:
    """A read-only Python function that a pair in the config looks at the world with."""

    registry: PythonRegistry
    declared: DeclaredTool

    @property
    def target_id(self) -> str:
        """The registry's."""
        return self.registry.target_id

    @property
    def rules(self) -> None:
        """None: what it returns is its answer, and so is what it raises."""

    async def reach(self) -> None:
        """It runs here."""

    async def comes_up(self) -> None:
        """It runs here."""

    async def read(self, args: JsonObject, step: StepFacts, rules: AnswerRules | None = None) -> ReadOutcome:
        """Call it; what it raises is its answer."""
        del rules
        registered = self.declared.registered
        call = call_beside(step, step.key, self.registry, "a read")
        try:
            decoded = registered.decode(args)
        except SagaToolsError as error:
            return ReadFailed(reason=describe(error))
        ended = await call_registered(
            registered, Arguments(dict(decoded.json), decoded.kwargs), call, self.registry.threads.read
        )
        if isinstance(ended, Raised):
            said = describe(ended.error)
            return ReadAnswer(text=said, is_error=True, error=said) if ended.started else ReadFailed(reason=said)
        found = landed(registered, ended.value)
        return ReadAnswer(text=found.answer.text, result=found.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCompanion:
    """A registered capture or guard."""

    registry: PythonRegistry
    tool: str
    """The forward action it belongs to, by its name in the config."""
    registered: RegisteredRead

    @property
    def target_id(self) -> str:
        """The registry's."""
        return self.registry.target_id

    @property
    def rules(self) -> None:
        """None: what it returns is its answer, and so is what it raises."""

    async def reach(self) -> None:
        """It runs here."""

    async def comes_up(self) -> None:
        """It runs here."""

    async def read(self, args: JsonObject, step: StepFacts, rules: AnswerRules | None = None) -> ReadOutcome:
        """Call it; what it returns has to come out of the log as it goes in."""
        del rules
        read = self.registered
        try:
            kwargs = read.arguments.kwargs_from_json(args)
            if read.call_parameter is not None:
                kwargs[read.call_parameter] = call_beside(step, step.key, self.registry, "a capture")
            if read.undo_parameter is not None:
                kwargs[read.undo_parameter] = undo_of(self.registry, self.tool, step)
        except SagaToolsError as error:
            return ReadFailed(reason=schema_changed(error))
        ended = await run(partial(read.function, **kwargs), is_async=read.is_async, threads=self.registry.threads.undo)
        if isinstance(ended, Raised):
            said = describe(ended.error)
            return ReadAnswer(text=said, is_error=True, error=said) if ended.started else ReadFailed(reason=said)
        encoded = read.result.encode(ended.value)
        if not (encoded.exact and read.result.comes_back(encoded.json, ended.value)):
            return ReadFailed(reason=f"{read.name} returned what cannot be stored exactly: annotate what it returns")
        return ReadAnswer(text=json.dumps(encoded.json, ensure_ascii=False), result=encoded.json)
