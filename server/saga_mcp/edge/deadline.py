"""What becomes of an open saga that nobody goes on with, and when: said in its replies (SEMANTICS.md S9.4, CASES C94).

A length of time and no moment, because idle time is what servers have watched: no clock says when it is over. At the
edge because it is only said here; the engine decides it anew each time.
"""

from saga_mcp.domain.attention import NOT_ABOUT_WORK
from saga_mcp.domain.duties import busy
from saga_mcp.domain.on_saga import blocks_commit
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import OnError, OnIdle, Phase
from saga_mcp.edge.look import Look
from saga_mcp.edge.wording import ends_after, flagged_after
from saga_mcp.engine.port import EngineSettings


def deadline(look: Look, settings: EngineSettings, *, long: bool = True) -> str:
    """Return one sentence; empty where no limit runs: the saga is closed, somebody works at it, or is asked about it.

    Args:
        look: the saga.
        settings: whose limits hold (this process's, as for what it watches).
        long: False leaves out a limit that ends nothing.
    """
    saga = look.saga
    if saga.phase is not Phase.ACTIVE or busy(saga) or any(item.kind not in NOT_ABOUT_WORK for item in look.items):
        return ""
    if _ends(saga, settings.on_idle):
        return ends_after(settings.idle_end_s, kept=settings.on_idle is OnIdle.COMMIT)
    return flagged_after(settings.idle_flag_s) if long and not saga.idle else ""


def _ends(saga: Saga, on_idle: OnIdle) -> bool:
    match on_idle:
        case OnIdle.FLAG:
            return False
        case OnIdle.ABORT:
            return not saga.pivot_passed
        case OnIdle.COMMIT:
            # Under "abort" what failed has ended its saga: no need to look at every step.
            return saga.on_error is OnError.ABORT or not any(blocks_commit(saga, step) for step in saga.steps)
