"""Files stay short and their public names exist."""

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
LONGEST = 400

SOURCES = sorted(
    path for root in ("server", "tool_registry", "tests", "examples") for path in (PROJECT / root).rglob("*.py")
)


def public_names(source: str) -> list[str] | None:
    """What `__all__` says, or None where there is none."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=names):
                listed: list[str] = ast.literal_eval(names)
                return listed
            case _:
                pass
    return None


def defined_names(source: str) -> set[str]:
    """Names that a module has at its top level, in one branch or another."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom() | ast.Import():
                names.update(alias.asname or alias.name for alias in node.names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case _:
                pass
    return names


def test_no_file_is_longer_than_one_job_needs() -> None:
    lengths = {str(path.relative_to(PROJECT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert len(lengths) > 50
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if "tests" not in path.parts and public_names(path.read_text()) is not None],
    ids=lambda path: str(path.relative_to(PROJECT)),
)
def test_what_a_module_makes_public_is_there_once(path: Path) -> None:
    source = path.read_text()
    names = public_names(source) or []
    assert set(names) <= defined_names(source)
    assert not [name for name in names if name.startswith("_")]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("root", ["server", "tool_registry"])
def test_every_module_says_what_it_is_responsible_for(root: str) -> None:
    silent = [
        str(path.relative_to(PROJECT))
        for path in SOURCES
        if path.is_relative_to(PROJECT / root) and path.read_text().strip() and not has_docstring(path)
    ]
    assert silent == []


def has_docstring(path: Path) -> bool:
    return ast.get_docstring(ast.parse(path.read_text())) is not None
