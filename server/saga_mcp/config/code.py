"""Loads authors' Python files, by path or by module, and says what went wrong in their words.

A file is loaded under a private module name, so that a module of the same name elsewhere never gets in its way, nor it
in theirs. Its folder is added to the *end* of the import path: siblings can be imported, and hide nothing that is
installed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from saga_mcp.config.problems import did_you_mean
from saga_tools import ToolRegistry


class CodeUnusable(Exception):
    """An author's code cannot be used; the message says why, and where."""


def load_file(path: Path) -> ModuleType:
    """Return the module in a file; the same one for the same file.

    Raises:
        CodeUnusable: It is not there, or raised.
    """
    if not path.is_file():
        raise CodeUnusable(f"there is no file {path}")
    stem = re.sub(r"\W", "_", path.stem)
    name = f"saga_mcp_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CodeUnusable(f"{path.name} is not a Python file")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CodeUnusable(_what_and_where(error, path)) from error
    return module


def load_module(name: str) -> ModuleType:
    """Return an installed module.

    Raises:
        CodeUnusable: It is not there, or raised.
    """
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise CodeUnusable(_what_and_where(error, None)) from error


def registry_in(module: ModuleType, name: str) -> ToolRegistry:
    """Return the registry that a module holds under a name.

    Raises:
        CodeUnusable: It holds none.
    """
    found: object = getattr(module, name, None)
    if isinstance(found, ToolRegistry):
        return found
    registries = [each for each, value in vars(module).items() if isinstance(value, ToolRegistry)]
    if found is not None:
        raise CodeUnusable(f"`{name}` is no ToolRegistry{did_you_mean(name, registries) or _has(registries)}")
    raise CodeUnusable(f"it holds no `{name}`{did_you_mean(name, registries) or _has(registries)}")


def function_in(module: ModuleType, name: str) -> object:
    """Return the function that a module holds under a name.

    Raises:
        CodeUnusable: It holds none.
    """
    found: object = getattr(module, name, None)
    if callable(found):
        return found
    functions = [each for each, value in vars(module).items() if callable(value)]
    raise CodeUnusable(f"it holds no function `{name}`{did_you_mean(name, functions)}")


def _has(registries: list[str]) -> str:
    return f"; its registries: {', '.join(registries)}" if registries else "; it holds no ToolRegistry at all"


def _what_and_where(error: BaseException, path: Path | None) -> str:
    """Describe an error, with the last line of the author's file that led to it; of any file, where there is none."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename or '').name}:{error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    own = [frame for frame in frames if path is not None and frame.filename == str(path)] or frames
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = "; install it where saga-mcp runs" if isinstance(error, ModuleNotFoundError) else ""
    return f"{message}{hint}{where}"


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen ") or filename in {__file__, importlib.__file__}
