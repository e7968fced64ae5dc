"""Brings in the CEL engine without its command line.

The package's `__init__` imports its own REPL, which pulls in Typer, rich and prompt_toolkit: measured 0.40 s and 27 MB
of a server's start for code that never runs here. The extension module alone takes 0.02 s. So that one submodule
is stood in for while the package loads, and is importable as usual afterwards.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cel
    from cel.stdlib import STDLIB_FUNCTIONS
else:

    def _load() -> ModuleType:
        stand_in = ModuleType("cel.cli")
        if sys.modules.setdefault("cel.cli", stand_in) is not stand_in:
            return importlib.import_module("cel")
        try:
            package = importlib.import_module("cel")
        finally:
            del sys.modules["cel.cli"]
        vars(package).pop("cli", None)
        return package

    cel = _load()
    STDLIB_FUNCTIONS = cel.stdlib.STDLIB_FUNCTIONS

__all__ = ["STDLIB_FUNCTIONS", "cel"]
