"""Secret arguments that are not stored, and what stands for them in the log (SEMANTICS.md S11.4)."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace

from saga_mcp.domain.events import PartSpec, StepPlan
from saga_mcp.domain.hiding import Hiding, repeated, without
from saga_mcp.domain.step_decisions import Landing
from saga_mcp.domain.values import JsonObject
from saga_mcp.log.port import SagaLog
from saga_mcp.tools.pair import Pair


async def sealed(plan: StepPlan, pair: Pair, log: SagaLog) -> StepPlan:
    """Return the plan of a call as it may be stored.

    Args:
        plan: With all arguments.
        pair: What the tool is for this call.
        log: Where it is to be stored.

    Raises:
        LogUnavailable: nothing can be stored now.
    """
    names = [name for name in pair.sealed if name in plan.args]
    if not names:
        return plan
    key = await log.hmac_key()
    marks: JsonObject = {}
    for name in names:
        what = json.dumps([plan.tool, name, plan.args[name]], sort_keys=True, separators=(",", ":"))
        marks[name] = hmac.new(key, what.encode("ascii"), hashlib.sha256).hexdigest()
    return replace(plan, args=without(plan.args, names), sealed=marks, args_digest="")


def with_secrets(part: PartSpec, sealed: JsonObject) -> PartSpec:
    """Return an undo that a call registers, with what it repeats of secrets that are stored nowhere else."""
    return replace(part, secrets=repeated(part.args, sealed.values()) or None)


def stored(landing: Landing, hiding: Hiding) -> Landing:
    """Return what is stored of an outcome: without the secrets that are not stored, though its tool repeats them."""
    return replace(landing, result=hiding.json(landing.result), kept=hiding.json(landing.kept))
