"""A saga is undone, probed and sent again only where it was done (SEMANTICS.md S1.2, S1.3; DESIGN.md rule 12)."""

from __future__ import annotations

from saga_mcp.domain.hosts import host_name, is_elsewhere
from saga_mcp.domain.state import Step
from saga_mcp.tools.port import Catalogue, Tool


def tool_of(catalogue: Catalogue, step: Step, here: str) -> tuple[Tool | None, str]:
    """The step's tool as this process has it, or None and why it may not be called for this step.

    Args:
        catalogue: what this process has.
        step: the step.
        here: the machine of this process.
    """
    if is_elsewhere(step, here):
        return None, f"{step.tool} needs host {host_name(step.plan.host)}, where it was called"
    tool = catalogue.tool(step.tool)
    if tool is None:
        return None, f"{step.tool} is not available in this config"
    if tool.pair.target_id != step.plan.target_id:
        return None, misplaced(step.tool)
    return tool, ""


def misplaced(name: str) -> str:
    """What is wrong where a name stands for another place than when the step was done."""
    return f"{name} now points to another place than the one where the step was done"
