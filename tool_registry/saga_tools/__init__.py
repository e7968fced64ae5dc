"""What a tool author imports to write forward actions and what undoes them.

No MCP, no storage and no saga state are in here: a file of tools needs this package and nothing of the server, and its
functions can be called and tested as they are. The server reads the same registry through `ToolRegistry.tools`.

    registry = ToolRegistry()

    @registry.tool
    def charge(customer: str, cents: int, call: Call) -> Charge: ...

    @registry.undoes(charge)
    def refund(customer: str, undo: Undo[Charge]) -> None: ...
"""

from saga_tools._arguments import Arguments, Decoded
from saga_tools._context import Call, OnUndo, Undo
from saga_tools._errors import (
    ArgumentProblem,
    CannotUndo,
    InvalidArguments,
    InvalidResult,
    NeedsPerson,
    NoEffect,
    PairError,
    Problem,
    SagaToolsError,
    Urgency,
)
from saga_tools._json import Json, decode_strings, jsonable
from saga_tools._model import (
    GuardVerdict,
    RegisteredFunction,
    RegisteredInvariant,
    RegisteredTool,
    RegisteredUndo,
)
from saga_tools._registry import Lifespan, ToolRegistry
from saga_tools._result import Result
from saga_tools._traits import ErrorMeans, Kind, OnRepeat, Retry, Traits, UndoTraits

__all__ = [
    "ArgumentProblem",
    "Arguments",
    "Call",
    "CannotUndo",
    "Decoded",
    "ErrorMeans",
    "GuardVerdict",
    "InvalidArguments",
    "InvalidResult",
    "Json",
    "Kind",
    "Lifespan",
    "NeedsPerson",
    "NoEffect",
    "OnRepeat",
    "OnUndo",
    "PairError",
    "Problem",
    "RegisteredFunction",
    "RegisteredInvariant",
    "RegisteredTool",
    "RegisteredUndo",
    "Result",
    "Retry",
    "SagaToolsError",
    "ToolRegistry",
    "Traits",
    "Undo",
    "UndoTraits",
    "Urgency",
    "decode_strings",
    "jsonable",
]
