"""docs/testing.md, taken at its word: its files are written down, and its tests pass, or fail as they should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```\w+\n# (\w+\.\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in BLOCK.findall(PAGE):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def pytest_in(project: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_the_tests_of_the_page_pass(project: Path) -> None:
    code, output = pytest_in(project)
    assert (code, output.splitlines()[-1].split(" in ")[0]) == (0, "5 passed"), output


def test_a_test_of_an_undo_is_five_lines() -> None:
    [test] = [text for name, text in BLOCK.findall(PAGE) if name == "test_shop.py"]
    _, _, body = test.partition("async def ")
    assert len(body.splitlines()) - 1 == 5


@pytest.mark.slow
def test_they_fail_with_the_timeline_where_the_undo_does_nothing(project: Path) -> None:
    shop = project / "shop.py"
    text = shop.read_text(encoding="utf-8")
    assert "payments.pop(undo.call_key, None)" in text
    shop.write_text(text.replace("payments.pop(undo.call_key, None)", "pass"), encoding="utf-8")
    code, output = pytest_in(project)
    assert code == 1
    assert "4 failed, 1 passed" in output  # before the effect there is nothing to undo
    assert "UNDO_SUCCEEDED          step 1 tools.charge" in output
