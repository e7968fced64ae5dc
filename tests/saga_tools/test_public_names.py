"""The package's surface is deliberate, and it drags in nothing of the server."""

import subprocess
import sys
import types

import saga_tools


def test_every_public_name_is_listed() -> None:
    own = {name for name, value in vars(saga_tools).items() if not isinstance(value, types.ModuleType)}
    assert {name for name in own if not name.startswith("_")} == set(saga_tools.__all__)
    assert list(saga_tools.__all__) == sorted(saga_tools.__all__)


def test_importing_it_imports_no_server_no_protocol_and_no_storage() -> None:
    program = "import sys, saga_tools; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert {"saga_mcp", "mcp", "sqlalchemy", "anyio"} & set(ran.stdout.split()) == set()
    assert "saga_tools" in ran.stdout.split()
