"""The upstream of the schedules, as a config has it, and what happens to it: see `depot_server.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
from tests.world.reading import World

SERVER = Path(__file__).with_name("depot_server.py")
_ARGS = '{ key = "${step.key}", item = "${args.item}", undo_key = "${step.undo_key}" }'
_RETRY = "{ attempts = 4, first_delay_s = 0.05, max_delay_s = 0.2 }"


def config(folder: Path, world: World, *, scope: str, timeout_s: float) -> str:
    """The tables of an upstream with two pairs: one that may be sent again and blindly, and one that may not."""
    undo = f"args = {_ARGS}, timeout_s = {timeout_s}, retry = {_RETRY}"
    return f"""
[upstreams.depot]
command = '{sys.executable}'
args = ['-I', '-S', '{SERVER}']
cwd = '{folder}'
env = {{ LEDGER = '{world.file}' }}
scope = "{scope}"
read_only = ["find"]
error_means = "unknown"
no_effect_when = "${{text.contains('nothing was done')}}"

[tools."depot.store"]
key_arg = "key"
on_repeat = "run"
timeout_s = {timeout_s}
undo = {{ tool = "depot.fetch", {undo}, idempotent = true, safe_if_absent = true }}

[tools."depot.ship"]
key_arg = "key"
on_repeat = "run"
timeout_s = {timeout_s}
settle_s = 0.2
probe = {{ tool = "depot.find", args = {{ key = "${{step.key}}" }}, landed = "${{now.result.found}}" }}
undo = {{ tool = "depot.recall", {undo} }}
"""


def kill(server: int) -> bool:
    """Kill the upstream of one server, if it has one now."""
    try:
        below = psutil.Process(server).children(recursive=True)
        found = [child for child in below if str(SERVER) in child.cmdline()[-1:]]
        for child in found:
            child.kill()
    except psutil.Error:  # it is gone already
        return False
    return bool(found)


def go_down(world: World) -> None:
    """Let every upstream that starts from now on end at once."""
    Path(f"{world.file}.down").touch()


def come_up(world: World) -> None:
    Path(f"{world.file}.down").unlink(missing_ok=True)
