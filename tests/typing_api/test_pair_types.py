"""A wrong pair is caught where it is written: by mypy and by pyright, on exactly the lines marked here."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

Checker = Callable[[Path], set[int]]

ROOT = Path(__file__).parents[2]

HEAD = """
    from __future__ import annotations

    from dataclasses import dataclass

    from saga_tools import Call, ToolRegistry, Undo


    @dataclass
    class Charge:
        id: str


    @dataclass
    class Receipt:
        number: int


    registry = ToolRegistry()


    @registry.tool(timeout_s=10, idempotent=True)
    async def charge(customer: str, cents: int, call: Call) -> Charge:
        return Charge(call.key)


    @registry.tool
    def plain_charge(customer: str, cents: int) -> Charge:
        return Charge(customer)
"""

RIGHT = """
    from typing import Literal


    @registry.undoes(charge)
    async def refund(customer: str, undo: Undo[Charge]) -> None: ...


    @registry.undoes(charge, needs_result=True)
    def refund_in_a_thread(undo: Undo[Charge]) -> None: ...


    @registry.undoes(plain_charge)
    async def refund_by_arguments(customer: str, cents: int) -> None: ...


    @registry.undoes(plain_charge)
    def refund_nothing() -> None: ...


    @registry.undoes(charge)
    def refund_with_a_wider_type(customer: object, cents: float, undo: Undo[Charge | Receipt]) -> None: ...


    @registry.tool
    async def ship(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: list[dict[str, int]]) -> dict[str, int]:
        return {"parcel": a + b + c + d + e + f + g + len(h)}


    @registry.undoes(ship)
    async def unship(
        a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: list[dict[str, int]], undo: Undo[dict[str, int]]
    ) -> None: ...


    @registry.tool
    def ping() -> None: ...


    @registry.undoes(ping)
    def unping(undo: Undo[None]) -> None: ...


    @registry.probes(charge)
    async def find(call: Call) -> Charge | None: ...


    @registry.probes(plain_charge)
    def find_in_a_thread(customer: str) -> Charge | None: ...


    @registry.captures(charge)
    async def owed(customer: str) -> int | None: ...


    @registry.guards(charge)
    def still_owed(customer: str, undo: Undo[Charge]) -> Literal["as_left", "as_before", "changed"]:
        return "as_left" if customer == undo.key else "changed"


    @registry.part
    async def release(ip: str) -> None: ...


    async def the_authors_own_calls() -> None:
        call = Call.for_test()
        charged: Charge = await charge("ada", cents=3, call=call)
        await refund(customer="ada", undo=Undo[Charge].for_test(result=charged))
        refund_nothing()
        found: Charge | None = await find(call)
        before: int | None = await owed("ada")
        print(before, still_owed("ada", undo=Undo[Charge].for_test()))
        print(found, plain_charge(customer="ada", cents=3).id)
        await call.on_undo(release, ip="10.0.0.1")
"""

WRONG = """
    @registry.undoes(charge)  # refused
    async def refund(customer: str, undo: Undo[Receipt]) -> None: ...


    @registry.undoes(plain_charge)  # refused
    def refund_in_a_thread(undo: Undo[Receipt]) -> None: ...


    @registry.undoes(plain_charge, idempotent=False)  # refused
    async def refund_later(customer: str, cents: int, undo: Undo[str]) -> None: ...


    @registry.probes(charge)  # refused
    async def find(call: Call) -> Receipt | None: ...


    @registry.probes(plain_charge)  # refused
    def find_in_a_thread(customer: str) -> Receipt | None: ...


    @registry.guards(charge)  # refused
    def still_owed(customer: str) -> bool:
        return bool(customer)


    @registry.tool(guard="unchanging")  # refused
    def misspelt_guard() -> None: ...


    @registry.tool(kind="undoable")  # refused
    def misspelt_kind() -> None: ...


    @registry.tool(timeout=3)  # refused
    def misspelt_trait() -> None: ...


    async def the_names_of_parameters_are_kept(call: Call) -> None:
        await charge(customer="ada", cent=3, call=call)  # refused
        await charge("ada", "3", call)  # refused
"""


def lines_refused_by_mypy(file: Path) -> set[int]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--output=json",
        f"--cache-dir={ROOT / '.mypy_cache'}",
        file.name,
    ]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "tool_registry")}
    ran = subprocess.run(
        command, cwd=file.parent, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.returncode in {0, 1}, ran.stdout + ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return {item["line"] for item in found if item["severity"] == "error"}


def lines_refused_by_pyright(file: Path) -> set[int]:
    config = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "tool_registry")]}
    (file.parent / "pyrightconfig.json").write_text(json.dumps(config))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "--project",
        str(file.parent),
    ]
    ran = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode in {0, 1}, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)["generalDiagnostics"]
    return {item["range"]["start"]["line"] + 1 for item in found if item["severity"] == "error"}


CHECKERS = [
    pytest.param(lines_refused_by_mypy, id="mypy"),
    pytest.param(lines_refused_by_pyright, id="pyright"),
]


def write(folder: Path, body: str) -> tuple[Path, set[int]]:
    text = dedent(HEAD) + "\n\n" + dedent(body)
    file = folder / "pairs.py"
    file.write_text(text)
    return file, {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# refused")}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("refused_lines", CHECKERS)
def test_right_pairs_pass_and_keep_their_signatures(refused_lines: Checker, tmp_path: Path) -> None:
    file, _ = write(tmp_path, RIGHT)
    assert refused_lines(file) == set()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("refused_lines", CHECKERS)
def test_each_wrong_pair_is_refused_on_its_line(refused_lines: Checker, tmp_path: Path) -> None:
    file, marked = write(tmp_path, WRONG)
    assert len(marked) == 11
    assert refused_lines(file) == marked
