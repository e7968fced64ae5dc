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
        if "cel" in sys.modules:
            return sys.modules["cel"]
        stand_in = ModuleType("cel.cli")
        sys.modules["cel.cli"] = stand_in
        try:
            package = importlib.import_module("cel")
        finally:
            if sys.modules.get("cel.cli") is stand_in:
                del sys.modules["cel.cli"]
        if getattr(package, "cli", None) is stand_in:
            del package.cli
        return package

    cel = _load()
    STDLIB_FUNCTIONS = cel.stdlib.STDLIB_FUNCTIONS

__all__ = ["STDLIB_FUNCTIONS", "cel"]
