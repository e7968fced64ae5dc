"""The package's surface is deliberate, and it drags in nothing of the server."""

import subprocess
import sys
import types

import pytest

import saga_tools
import saga_tools.server

AUTHORS = {
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
}
SERVERS = {
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
}


@pytest.mark.parametrize(("module", "names"), [(saga_tools, AUTHORS), (saga_tools.server, SERVERS)])
def test_authors_see_what_they_use_and_the_server_has_a_door_of_its_own(
    module: types.ModuleType, names: set[str]
) -> None:
    own = {name for name, value in vars(module).items() if not isinstance(value, types.ModuleType)}
    assert {name for name in own if not name.startswith("_")} == names
    assert sorted(module.__all__) == sorted(names)


def test_an_author_of_a_registry_sees_the_decorators_and_the_check() -> None:
    seen = {name for name in vars(saga_tools.ToolRegistry()) | vars(saga_tools.ToolRegistry) if name[0] != "_"}
    assert seen == {"lifespan", "name", "tool", "undoes", "probes", "captures", "guards", "part", "invariant", "check"}


def test_importing_it_imports_no_server_no_protocol_and_no_storage() -> None:
    program = "import sys, saga_tools; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert {"saga_mcp", "mcp", "sqlalchemy", "anyio"} & set(ran.stdout.split()) == set()
    assert "saga_tools" in ran.stdout.split()
