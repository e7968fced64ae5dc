"""`saga-mcp check` and `try` over the real servers: what the presets say holds for the servers as they are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.servers.behind import BOUND_S, COMMAND, Behind

pytestmark = pytest.mark.timeout(2 * BOUND_S)


def run(behind: Behind, *arguments: str) -> tuple[int, dict[str, Any]]:
    head = '[saga]\nname = "real"\ndatabase = "sqlite:///saga.db"\n'
    behind.config.write_text("\n\n".join([head, *behind.blocks]) + "\n")
    done = subprocess.run(
        [COMMAND, *arguments, "--json"], cwd=behind.folder, capture_output=True, timeout=BOUND_S, check=False
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
def test_nothing_is_wrong_with_the_presets_of_the_servers_that_run_here(tmp_path: Path) -> None:
    behind = Behind(tmp_path)
    behind.add_filesystem()
    behind.add_memory()
    behind.add_git()
    behind.add_sqlite()
    behind.add_excel()
    code, checked = run(behind, "check")
    assert (code, checked["errors"], checked["warnings"]) == (0, [], [])
    assert len(checked["tools"]) > 60


@pytest.mark.slow
def test_a_write_is_tried_on_a_real_file_and_not_done(tmp_path: Path) -> None:
    behind = Behind(tmp_path)
    behind.add_filesystem()
    there, new = behind.files / "there.txt", behind.files / "new.txt"
    there.write_text("old\n")
    code, tried = run(behind, "try", "fs.write_file", json.dumps({"path": str(there), "content": "x"}))
    assert (code, tried["capture"]["text"]) == (0, "old\n")
    assert [each["parts"][0]["args"] for each in tried["undo"] if each["chosen"]] == [
        {"path": str(there), "content": "old\n"}
    ]
    code, tried = run(behind, "try", "fs.write_file", json.dumps({"path": str(new), "content": "x"}))
    assert (code, [each["tool"] for each in tried["undo"] if each["chosen"]]) == (0, ["fs.move_file"])
    assert (there.read_text(), new.exists()) == ("old\n", False)
