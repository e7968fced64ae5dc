"""What a tool author imports to write forward actions and what undoes them.

No MCP, no storage and no saga state are in here: a file of tools needs this package and nothing of the server, and its
functions can be called and tested as they are. What the server reads of a registry is in `saga_tools.server`.

    registry = ToolRegistry()

    @registry.tool
    def charge(customer: str, cents: int, call: Call) -> Charge: ...

    @registry.undoes(charge)
    def refund(customer: str, undo: Undo[Charge]) -> None: ...
"""

from saga_tools._context import Call, Undo
from saga_tools._errors import (
    CannotUndo,
    InvalidArguments,
    NeedsPerson,
    NoEffect,
    PairError,
    Problem,
    SagaToolsError,
    Urgency,
)
from saga_tools._registry import ToolRegistry
from saga_tools._traits import Retry

__all__ = [
    "Call",
    "CannotUndo",
    "InvalidArguments",
    "NeedsPerson",
    "NoEffect",
    "PairError",
    "Problem",
    "Retry",
    "SagaToolsError",
    "ToolRegistry",
    "Undo",
    "Urgency",
]
