"""What users test their pairs with: the real engine on a log of its own, and failures where they are wanted.

The topmost layer, because it puts the whole product together as the command does, and nothing of the product needs it.
It needs no pytest; `saga_mcp.testing.fixture` has a fixture for those who use it.
"""

from saga_mcp.testing.errors import CallFailed, FaultUnused, InjectedFault, ServerDied
from saga_mcp.testing.faults import UndoWhen, When
from saga_mcp.testing.harness import Harness
from saga_mcp.testing.saga import HarnessSaga

__all__ = [
    "CallFailed",
    "FaultUnused",
    "Harness",
    "HarnessSaga",
    "InjectedFault",
    "ServerDied",
    "UndoWhen",
    "When",
]
