"""What the server needs of a registry and authors do not: how its tools are described, decoded, called and stored.

A module of its own, so that what an author reads of `saga_tools` is what an author uses.
"""

from saga_tools._arguments import Arguments, Decoded
from saga_tools._build import Registered
from saga_tools._context import OnUndo, Report
from saga_tools._errors import ArgumentProblem, InvalidResult
from saga_tools._json import Json, fit_to_schema, jsonable, repaired
from saga_tools._model import RegisteredInvariant, RegisteredProbe, RegisteredRead, RegisteredTool, RegisteredUndo
from saga_tools._registry import Lifespan, add, registered
from saga_tools._result import Result
from saga_tools._traits import UNDO_RETRY, ErrorMeans, Kind, OnRepeat, Traits, UndoTraits, usual_retry

__all__ = [
    "UNDO_RETRY",
    "ArgumentProblem",
    "Arguments",
    "Decoded",
    "ErrorMeans",
    "InvalidResult",
    "Json",
    "Kind",
    "Lifespan",
    "OnRepeat",
    "OnUndo",
    "Registered",
    "RegisteredInvariant",
    "RegisteredProbe",
    "RegisteredRead",
    "RegisteredTool",
    "RegisteredUndo",
    "Report",
    "Result",
    "Traits",
    "UndoTraits",
    "add",
    "fit_to_schema",
    "jsonable",
    "registered",
    "repaired",
    "usual_retry",
]
