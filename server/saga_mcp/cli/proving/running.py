"""Rehearses calls with failures, each and all in one saga, through the real engine on a log of its own.

What became of the world is asked of the tools that read it, never of our own records; the two are then held against
each other, because the one thing that must not happen is a saga that says "undone" over a world that is not.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import anyio

from saga_mcp.app import App, open_app
from saga_mcp.cli.proving.faults import FailingCatalogue, Fault, Plan
from saga_mcp.cli.proving.rehearsal import Rehearsal, Sample
from saga_mcp.config import LoadedConfig
from saga_mcp.domain.approvals import approve
from saga_mcp.domain.attention import NEEDS_ATTENTION, items, reported_state, summary, tally
from saga_mcp.domain.errors import SagaError
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Kind, PartAction, StepState
from saga_mcp.engine.clock import HastyClock
from saga_mcp.engine.engine import Engine
from saga_mcp.engine.port import Caller
from saga_mcp.log.place import FilePlace
from saga_mcp.tools.binding.patterns import matches
from saga_mcp.tools.port import ReadAnswer, ReadFailed, StepFacts, Tool
from saga_mcp.tools.unsent import InvalidArguments, UpstreamDown

_UP_WITHIN_S = 120.0
_AT_REST_WITHIN_S = 300.0
_PROBE_FOR_S = 10.0
_DRAIN_S = 2.0
_MOST_LINES = 40
_AGENT = Caller()
_OF_UNDOS = frozenset({Fault.UNDO_BEFORE, Fault.UNDO_LOST})


class Verdict(StrEnum):
    """What a rehearsal showed."""

    RESTORED = "restored"
    SAID = "differs as said"
    """By what the samples declare, or because the undo sends nothing and says that it leaves something."""
    PERSON = "left to a person"
    """The world differs, and an attention item says so."""
    UNSEEN = "NOT SHOWN"
    """The call did its work, and no read shows it: whether it was undone cannot be seen either."""
    UNTRIED = "NOT TRIED"
    """The call was refused or failed by itself, and the world is as it was: nothing was there to undo."""
    BROKEN = "BROKEN"
    """The world differs, and nothing says so; or the saga did not come to its end."""


_FAULTY = frozenset({Verdict.BROKEN, Verdict.UNTRIED, Verdict.UNSEEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One call with one failure; or the calls of one saga up to one, with a failure around that."""

    tool: str
    step: int = 0
    """Which step of the one saga it is; 0: a call by itself."""
    fault: Fault
    verdict: Verdict
    said: str = ""
    """What the saga said at its end; or why there was none."""
    asks_by_itself: bool = False
    """Its undo is a person's work."""
    differences: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    """Tools whose calls nobody undid, since a person is asked first: what they did may still be in the sandbox."""
    not_restored: str = ""
    """What the pair says in words that its undo does not bring back: to be read beside the differences."""

    @property
    def passed(self) -> bool:
        """Whether the pair did what it promises: without being asked to, it asks a person only of a lost reply."""
        may_ask = self.asks_by_itself or self.fault in {Fault.LOST, Fault.UNDO_LOST}
        return self.verdict not in _FAULTY and (may_ask or self.verdict is not Verdict.PERSON)


class CannotRehearse(Exception):
    """The world cannot be looked at, so nothing was called."""


async def prove(
    loaded: LoadedConfig, rehearsal: Rehearsal, told: Callable[[str], None], *, singly: bool = False
) -> list[Scene]:
    """Rehearse everything.

    Args:
        loaded: What is rehearsed; its own saga log is not touched.
        rehearsal: With which calls.
        told: Called with a line for each rehearsal that begins.
        singly: Each call by itself, and not all in one saga.

    Raises:
        CannotRehearse: the world cannot be looked at.
    """
    plan = Plan()
    async with _opened(loaded, plan) as app:
        world = _World(app, rehearsal.reads)
        await world.look()
        scenes: list[Scene] = []
        for acts, fault in _acts(app, rehearsal, singly=singly):
            step = len(acts) if len(acts) > 1 else 0
            told(f"{acts[-1].sample.tool}{f', step {step}' if step else ''}: {fault.value}")
            scene = await _scene(app, world, plan, acts, fault)
            if plan.strikes(fault) and fault in _OF_UNDOS and scene.verdict not in _FAULTY:
                told("  left out: its undo calls nothing that could fail")
            else:
                scenes.append(replace(scene, step=step))
        await app.engine.drain(_DRAIN_S)
    return scenes


@dataclass(frozen=True, slots=True)
class _Act:
    """One call, with its tool."""

    tool: Tool
    sample: Sample


def _acts(app: App, rehearsal: Rehearsal, *, singly: bool) -> Iterator[tuple[Sequence[_Act], Fault]]:
    """The calls of each saga that is rehearsed, and what goes wrong around the last one.

    The lost replies come last: they may be left to a person, and stay in the sandbox.
    """
    acts: list[_Act] = []
    for sample in rehearsal.calls:
        tool = app.catalogue.tool(sample.tool)
        assert tool is not None  # noqa: S101 - the command has looked
        acts.append(_Act(tool, sample))
    undoable = [act for act in acts if act.tool.pair.kind is Kind.COMPENSABLE]
    for act in acts:
        faults = set(Fault) - {Fault.LOST} if act in undoable else {Fault.BEFORE}
        yield from (((act,), fault) for fault in Fault if fault in faults)
    for step in range(2, 1 if singly else len(undoable) + 1):
        yield undoable[:step], Fault.BEFORE
        yield undoable[:step], Fault.NONE
    yield from (((act,), Fault.LOST) for act in undoable)


@contextlib.asynccontextmanager
async def _opened(loaded: LoadedConfig, plan: Plan) -> AsyncGenerator[App]:
    settings = replace(
        loaded.settings, probe_for_s=min(loaded.settings.probe_for_s, _PROBE_FOR_S), reply_within_s=_AT_REST_WITHIN_S
    )
    with tempfile.TemporaryDirectory(prefix="saga-mcp-prove-") as folder:
        place = FilePlace(Path(folder) / "saga.db")
        own = replace(loaded, settings=settings, database=place, database_is_default=False, alerts=None)
        async with open_app(
            own,
            ends_soon=True,
            clock=HastyClock(),
            around=lambda inner: FailingCatalogue(inner, plan),
            up_within_s=_UP_WITHIN_S,
        ) as app:
            yield app


class _World:
    def __init__(self, app: App, reads: Sequence[Sample]) -> None:
        self._app = app
        self._reads = reads

    async def look(self) -> list[str]:
        """What the reads say, in lines."""
        lines: list[str] = []
        for number, read in enumerate(self._reads, 1):
            reader = self._app.catalogue.reader(read.tool)
            if reader is None:
                raise CannotRehearse(f"{read.tool} is not read-only in this config, so it cannot show the world")
            facts = StepFacts(saga_id="", tool=read.tool, number=0, key="", args=read.args)
            answer = await reader.read(read.args, facts)
            if isinstance(answer, ReadFailed):
                raise CannotRehearse(f"{read.tool}: {answer.reason}")
            lines += [f"{read.tool} ({number}): {line}" for line in _shown(answer).splitlines()]
        return lines


def _shown(answer: ReadAnswer) -> str:
    """The text, which is how a server shows it; laid out where that is JSON."""
    try:
        return json.dumps(json.loads(answer.text), indent=1, sort_keys=True, ensure_ascii=False)
    except ValueError:
        return answer.text or json.dumps(answer.result, indent=1, sort_keys=True, ensure_ascii=False)


async def _scene(app: App, world: _World, plan: Plan, acts: Sequence[_Act], fault: Fault) -> Scene:
    pairs = (pair for act in acts for pair in (act.tool.pair, *(case.pair for case in act.tool.pair.cases)))
    not_restored = "; ".join(dict.fromkeys(pair.not_restored for pair in pairs if pair.not_restored))
    scene = Scene(tool=acts[-1].sample.tool, fault=fault, verdict=Verdict.BROKEN, not_restored=not_restored)
    before = await world.look()
    try:
        with anyio.fail_after(_AT_REST_WITHIN_S):
            saga_id = (await app.engine.begin(_AGENT, purpose=f"rehearsal of {scene.tool}")).id
            refused = await _call(app.engine, saga_id, plan, acts, fault)
            seen = fault is not Fault.NONE or await world.look() != before
            await app.engine.abort(saga_id, cause="agent")
            saga = await app.engine.rest(saga_id)
    except SagaError as error:
        return replace(scene, said=str(error))
    except TimeoutError:
        return replace(scene, said=f"not at rest within {_AT_REST_WITHIN_S:g} s")
    after = await world.look()
    changes = tuple(difflib.unified_diff(before, after, "before", "after", n=0, lineterm=""))[2:]
    differences = changes[:_MOST_LINES]
    for step in saga.steps:
        struck = fault is Fault.BEFORE and step.number == len(acts)
        if step.state is StepState.FAILED and not struck:
            refused = refused or f"the call of {step.tool} itself fails: {step.error}"
    if refused:
        verdict = Verdict.BROKEN if changes else Verdict.UNTRIED
        return replace(scene, verdict=verdict, said=refused, differences=differences)
    declared = [pattern for act in acts for pattern in act.sample.differs]
    verdict = _verdict(saga, [line for line in changes if not line.startswith("@@")], declared)
    return replace(
        scene,
        verdict=verdict if seen or verdict is not Verdict.RESTORED else Verdict.UNSEEN,
        said=summary(saga),
        asks_by_itself=any(part.spec.action is PartAction.MANUAL for step in saga.steps for part in step.parts or ()),
        differences=differences,
        stays=tuple(item.tool for item in items(saga) if item.step),
    )


async def _call(engine: Engine, saga_id: str, plan: Plan, acts: Sequence[_Act], fault: Fault) -> str:
    """Make the calls; return why one was refused, or nothing."""
    for number, act in enumerate(acts, 1):
        plan.due = fault if number == len(acts) else Fault.NONE
        try:
            reply = await engine.call(act.tool.offered, act.sample.args, saga_id=saga_id, caller=_AGENT)
        except (SagaError, InvalidArguments, UpstreamDown) as refused:
            return str(refused)
        if reply.code == "approval_needed":
            await _allow(engine, saga_id, reply.step)
        elif reply.code:
            break
    return ""


async def _allow(engine: Engine, saga_id: str, number: int) -> None:
    """Allow a call that asks a person, as whoever named the sandbox would; and let it run."""
    await engine.decide_item(
        saga_id, lambda saga, _: approve(saga, number, by="saga-mcp prove", note="a rehearsal", now=time.time())
    )
    await engine.rest(saga_id)


def _verdict(saga: Saga, changes: Sequence[str], declared: Sequence[str]) -> Verdict:
    """Hold the world against what the saga says; words of the pair excuse nothing, since nobody can check them."""
    if reported_state(saga) == NEEDS_ATTENTION or items(saga):
        return Verdict.PERSON
    if not changes:
        return Verdict.RESTORED
    sent = any(part.spec.action is PartAction.CALL for step in saga.steps for part in step.parts or ())
    if tally(saga).residue and not sent:
        return Verdict.SAID
    foreseen = all(any(True for pattern in declared for _ in matches(pattern, line)) for line in changes)
    return Verdict.SAID if foreseen else Verdict.BROKEN
