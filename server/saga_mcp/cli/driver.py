"""`saga-mcp driver`: which driver brings the realm's sagas to rest, and switching it (SEMANTICS.md S12.2)."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from saga_mcp.cli.ground import Ground, open_app, open_log, stand_on
from saga_mcp.cli.options import ConfigOption, JsonOption, YesOption, ask, require_answerable
from saga_mcp.cli.output import CommandFailed, Output, wrong_usage
from saga_mcp.engine.drivers.tenure import LOCAL, TEMPORAL

_NAMES = (LOCAL, TEMPORAL)
_ABOUT = {
    LOCAL: "the servers of the realm",
    TEMPORAL: "workers (`saga-mcp worker`), when a Temporal server says so",
    "": "nobody yet: the first process that has something to drive names its own",
}


def driver(
    action: Annotated[str, typer.Argument(metavar="[set]", show_default=False)] = "",
    name: Annotated[str, typer.Argument(metavar="[local|temporal]", show_default=False)] = "",
    *,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which driver brings this realm's sagas to rest, or switch it: `saga-mcp driver set temporal`.

    It stands in the saga log, and each process reads it before it drives. One whose config names another driver drives
    nothing, and says so; calls go on. What is under way is finished by whoever began it.

    Example: saga-mcp driver set temporal --yes
    """
    if not action and not name:
        anyio.run(_show, stand_on(config, code=False), Output(as_json))
        return
    if action != "set" or name not in _NAMES:
        wrong_usage(f"Say `saga-mcp driver`, or `saga-mcp driver set {'|'.join(_NAMES)}`. Nothing was changed.")
    require_answerable(yes=yes, as_json=as_json)
    anyio.run(_set, stand_on(config, code=False), name, yes, Output(as_json))


async def _show(ground: Ground, output: Output) -> None:
    async with open_log(ground) as log:
        now = await log.driver_of(ground.realm)
    _tell(ground, now, output, changed=False)


async def _set(ground: Ground, name: str, yes: bool, output: Output) -> None:  # noqa: FBT001 - for anyio.run
    async with open_log(ground) as log:
        was = await log.driver_of(ground.realm)
    if was == name:
        _tell(ground, was, output, changed=False)
        return
    ask(f"Let the sagas of realm {ground.realm} be driven by {_ABOUT[name]}, instead of {_ABOUT[was]}?", yes=yes)
    async with open_app(ground, drive=False) as opened:
        now = await opened.log.name_driver(ground.realm, name, was=was)
    if now != name:
        raise CommandFailed(
            f'Somebody has switched it meanwhile: it is "{now}" now. Nothing was changed.', code="raced"
        )
    _tell(ground, now, output, changed=True)


def _tell(ground: Ground, now: str, output: Output, *, changed: bool) -> None:
    configured = TEMPORAL if ground.loaded.temporal is not None else LOCAL
    fits = now in {"", configured}
    if output.as_json:
        output.json({"realm": ground.realm, "driver": now, "config": configured, "fits": fits, "changed": changed})
        return
    if not fits:
        output.text(
            f'{ground.path} says `driver = "{configured}"`: processes with this config drive nothing. '
            f'Set `[saga] driver = "{now}"` there and restart them, or switch back.'
        )
    switched = "Switched. " if changed else ""
    output.text(f"{switched}Driver of realm {ground.realm}: {now or 'none'} ({_ABOUT[now]})")
