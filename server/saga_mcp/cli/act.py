"""The commands that change a saga: `commit`, `abort`, `retry`, `resolve`, `exempt` (SEMANTICS.md S12.1, S14.3).

Each appends what a person decided. A living server of the realm drives on; where there is none, the command does it
itself until the saga is at rest, so that nothing a person asked for waits for a process that may never come.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, TypeAlias

import anyio
import typer

from saga_mcp.cli import views
from saga_mcp.cli.bulk import Wanted, retry_all
from saga_mcp.cli.drive import Plan, carry_out
from saga_mcp.cli.ground import stand_on
from saga_mcp.cli.items import item_at, verbs
from saga_mcp.cli.look import split_name
from saga_mcp.cli.options import (
    ByOption,
    ConfigOption,
    DetachOption,
    JsonOption,
    NoteOption,
    WaitOption,
    YesOption,
    person,
    require_answerable,
)
from saga_mcp.cli.output import wrong_usage
from saga_mcp.cli.pausing import tool_named
from saga_mcp.domain import person_decisions
from saga_mcp.domain.attention import items
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import ItemRefused
from saga_mcp.domain.events import Event
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, JsonValue, Phase
from saga_mcp.engine.engine import Engine

SagaArgument = Annotated[str, typer.Argument(metavar="ID", help="The saga.", show_default=False)]
ItemArgument = Annotated[str, typer.Argument(metavar="ITEM", help="The item: <saga>.<step>.", show_default=False)]


def commit(
    name: SagaArgument,
    *,
    accept_failed: Annotated[
        list[int] | None, typer.Option("--accept-failed", metavar="STEP", help="A failed step that may stay so.")
    ] = None,
    yes: YesOption = False,
    by: ByOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep everything a saga did. It cannot be aborted afterwards.

    Example: saga-mcp commit sg-7k2m... --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    saga_id = saga_named(name)
    who = person(by)
    accepted = tuple(accept_failed or ())
    plan = Plan(
        saga_id=saga_id,
        question=lambda saga: f"Keep all {len(saga.steps)} steps of {saga.id} for good?",
        decide=lambda engine: engine.commit(saga_id, by=who, accept_failed=accepted),
        reached=lambda saga: saga.phase is Phase.COMMITTED,
        drives=False,
    )
    anyio.run(carry_out, stand_on(config), plan, yes, as_json)


def abort(  # noqa: PLR0913 - its options
    name: SagaArgument,
    *,
    to_savepoint: Annotated[
        str | None, typer.Option("--to-savepoint", metavar="NAME", help="Undo only what came after this mark.")
    ] = None,
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    wait: WaitOption = None,
    detach: DetachOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo a saga, last step first. Its id takes no more calls, unless it is undone to a save-point only.

    Example: saga-mcp abort sg-7k2m... --note "wrong customer" --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    saga_id = saga_named(name)
    who = person(by)

    def question(saga: Saga) -> str:
        scope = (
            f"what {saga.id} did after {to_savepoint!r}"
            if to_savepoint
            else f"all {len(saga.steps)} steps of {saga.id}"
        )
        return f"Undo {scope}?"

    def reached(saga: Saga) -> bool:
        return saga.phase is Phase.COMPENSATED or (to_savepoint is not None and saga.phase is Phase.ACTIVE)

    plan = Plan(
        saga_id=saga_id,
        question=question,
        decide=lambda engine: engine.abort(
            saga_id, cause="operator", by=who, reason=note[:200], to_savepoint=to_savepoint
        ),
        reached=lambda saga: reached(saga) and not any(item.step for item in items(saga)),
        wait_s=wait,
        detach=detach,
    )
    anyio.run(carry_out, stand_on(config), plan, yes, as_json)


Decision: TypeAlias = Callable[[Saga, Driving], tuple[Event, ...]]


def _settling(saga_id: str, step: int, question: Callable[[Saga], str], decision: Decision) -> Plan:
    """Ask, append what a person decided about the item at a step, and go on until nothing waits there."""
    return Plan(
        saga_id=saga_id,
        question=question,
        decide=_decide(saga_id, decision),
        reached=lambda saga: not _waits_at(saga, step),
    )


def retry(  # noqa: PLR0913 - its options
    item: Annotated[str, typer.Argument(metavar="ITEM", help="The item: <saga>.<step>.", show_default=False)] = "",
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Instead of ITEM: everything that can simply try again.")
    ] = False,
    tool: Annotated[
        str,
        typer.Option("--tool", metavar="TOOL", help="With --all: only what waits for this tool.", show_default=False),
    ] = "",
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    wait: WaitOption = None,
    detach: DetachOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let what is stuck try again, with fresh attempts and the same key.

    Example: saga-mcp retry sg-7k2m....2 --note "the bank is back" --yes
    Example: saga-mcp retry --all --tool billing.refund --yes
    """
    if every == bool(item) or (tool and not every):
        wrong_usage("Say either an ITEM or --all, and --tool only with --all. Nothing was changed.")
    require_answerable(yes=yes, as_json=as_json)
    if every:
        ground = stand_on(config)
        wanted = Wanted(
            tool=tool and tool_named(config, ground, tool), by=person(by), note=note, wait_s=wait, detach=detach
        )
        retry_all(ground, wanted, yes=yes, as_json=as_json)
        return
    saga_id, step = item_named(item)
    who = person(by)
    plan = _settling(
        saga_id,
        step,
        lambda saga: f"Try again at {_described(saga, step)}?",
        lambda saga, driving: person_decisions.retry(saga, step, by=who, note=note, driving=driving),
    )
    anyio.run(carry_out, stand_on(config), replace(plan, wait_s=wait, detach=detach), yes, as_json)


def exempt(  # noqa: PLR0913 - its options
    name: ItemArgument,
    *,
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    wait: WaitOption = None,
    detach: DetachOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Leave what a step did as it is, in your name. The saga goes on without it.

    Example: saga-mcp exempt sg-7k2m....2 --note "agreed with the customer" --yes
    """
    require_answerable(yes=yes, as_json=as_json)
    saga_id, step = item_named(name)
    who = person(by)
    plan = _settling(
        saga_id,
        step,
        lambda saga: f"Leave {_described(saga, step)} as it is, decided by {who}?",
        lambda saga, driving: person_decisions.exempt(saga, step, by=who, note=note, driving=driving),
    )
    anyio.run(carry_out, stand_on(config), replace(plan, wait_s=wait, detach=detach), yes, as_json)


def resolve(  # noqa: PLR0913 - its options
    name: ItemArgument,
    *,
    landed: Annotated[bool, typer.Option("--landed", help="The step happened.")] = False,
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="With --landed: what it returned, for its undo.")
    ] = None,
    absent: Annotated[bool, typer.Option("--absent", help="The step did not happen.")] = False,
    undone: Annotated[bool, typer.Option("--undone", help="It is undone; you or somebody else did it.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Undo it although it was changed since; the change is lost.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep what was changed since; nothing is undone here.")] = False,
    note: NoteOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    wait: WaitOption = None,
    detach: DetachOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what you found out or did about an item; the saga goes on from there. Exactly one of the five.

    Example: saga-mcp resolve sg-7k2m....2 --landed --result '{"id": "ch_1"}' --yes
    """
    answers = {"--landed": landed, "--absent": absent, "--undone": undone, "--overwrite": overwrite, "--keep": keep}
    given = [flag for flag, is_given in answers.items() if is_given]
    if len(given) != 1:
        wrong_usage(f"Say exactly one of {', '.join(answers)}. Nothing was changed. See `saga-mcp show {name}`.")
    if result is not None and not landed:
        wrong_usage("--result goes with --landed. Nothing was changed.")
    value = _json(result) if result is not None else None
    require_answerable(yes=yes, as_json=as_json)
    saga_id, step = item_named(name)
    who = person(by)

    async def decide(engine: Engine) -> Saga:
        if landed:
            known = result is not None
            return await engine.resolve_landed(saga_id, step, result=value, known=known, by=who, note=note)
        decision = _ANSWERS[given[0]]
        return await engine.decide_item(
            saga_id, lambda saga, driving: decision(saga, step, by=who, note=note, driving=driving)
        )

    plan = Plan(
        saga_id=saga_id,
        question=lambda saga: f"{_described(saga, step)}: {_SAID[given[0]]}, says {who}. Record that?",
        decide=decide,
        reached=lambda saga: not _waits_at(saga, step),
        wait_s=wait,
        detach=detach,
    )
    anyio.run(carry_out, stand_on(config), plan, yes, as_json)


def _keep(saga: Saga, number: int, *, by: str, note: str, driving: Driving) -> tuple[Event, ...]:
    item = item_at(saga, number)
    if item is not None and item.kind is not ItemKind.GUARD_CONFLICT:
        raise ItemRefused(
            f"{item.name} is an item of the kind {item.kind}: `resolve --keep` is for what was changed since. "
            f"Nothing was changed. It takes: {' | '.join(verbs(item))}."
        )
    return person_decisions.exempt(saga, number, by=by, note=note, driving=driving)


_ANSWERS = {
    "--absent": person_decisions.resolve_absent,
    "--undone": person_decisions.resolve_undone,
    "--overwrite": person_decisions.overwrite,
    "--keep": _keep,
}
_SAID = {
    "--landed": "it happened",
    "--absent": "it did not happen",
    "--undone": "it is undone",
    "--overwrite": "undo it, what was changed since is lost",
    "--keep": "keep what was changed since",
}


def _decide(saga_id: str, decision: Decision) -> Callable[[Engine], Awaitable[Saga]]:
    return lambda engine: engine.decide_item(saga_id, decision)


def _waits_at(saga: Saga, step: int) -> bool:
    return item_at(saga, step) is not None


def _described(saga: Saga, step: int) -> str:
    found = item_at(saga, step)
    return f"{saga.id}.{step}" if found is None else f"{found.name} ({views.what(found)})"


def _json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError as error:
        wrong_usage(f"--result is not JSON: {error}. Nothing was changed.")
    return value


def saga_named(name: str) -> str:
    """The saga that a person named.

    Raises:
        CommandFailed: it is an item, or neither.
    """
    saga_id, step = split_name(name)
    if step is not None:
        wrong_usage(f"{name} is an item; this takes the saga: {saga_id}. Nothing was changed.")
    return saga_id


def item_named(name: str) -> tuple[str, int]:
    """The saga and the step of the item that a person named.

    Raises:
        CommandFailed: it is no item.
    """
    saga_id, step = split_name(name)
    if step is None:
        wrong_usage(
            f"{name} is a saga; this takes an item, <saga>.<step>: see `saga-mcp attention`. Nothing was changed."
        )
    return saga_id, step
