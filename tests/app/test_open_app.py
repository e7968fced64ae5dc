"""The parts put together from a real config: a real log, a real engine, authors' code with a world in a file."""

import json
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from saga_mcp.app import load, open_app
from saga_mcp.domain.values import Phase, StepState
from saga_mcp.engine.port import Caller
from saga_mcp.tools.python import LifespanFailed

CODE = """
import contextlib, json, pathlib, threading
from saga_tools import Call, ToolRegistry, Undo

HERE = pathlib.Path(__file__).parent

@contextlib.asynccontextmanager
async def clients():
    (HERE / "opened").touch()
    yield "client"
    (HERE / "closed").touch()

registry = ToolRegistry(lifespan=clients)

def world():
    path = HERE / "world.json"
    return json.loads(path.read_text()) if path.exists() else {}

def change(**facts):
    (HERE / "world.json").write_text(json.dumps({k: v for k, v in {**world(), **facts}.items() if v is not None}))

@registry.tool
async def put(name: str, value: int, call: Call) -> str:
    change(**{name: value})
    return call.deps

@registry.undoes(put)
async def take(name: str, undo: Undo[str]) -> None:
    change(**{name: None, "result": undo.result})

@registry.tool(kind="pivot")
def hang() -> None:
    (HERE / "hanging").touch()
    threading.Event().wait()

def create_lead(name: str) -> dict[str, int]:
    change(lead=name)
    return {"lead_id": 7}

def delete_lead(lead_id: int) -> None:
    assert lead_id == 7
    change(lead=None)
"""
TOML = """
[saga]
name = "test"
[python.box]
path = "box.py:registry"
[python.crm]
path = "box.py"
functions = ["create_lead", "delete_lead"]
[tools."crm.create_lead"]
undo = { tool = "crm.delete_lead", args = { lead_id = "${result.lead_id}" } }
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "box.py").write_text(CODE, encoding="utf-8")
    path = tmp_path / "saga.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


def world(config: Path) -> dict[str, object]:
    path = config.with_name("world.json")
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def exists(path: Path) -> bool:
    return path.exists()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_pairs_from_code_and_from_the_config_are_undone_by_the_engine(config: Path) -> None:
    with anyio.fail_after(20):
        async with open_app(load(config)) as app:
            assert list(app.catalogue.offered) == ["put", "hang", "create_lead"]
            first = await app.engine.call("put", {"name": "a", "value": 1}, caller=Caller())
            assert first.answer is not None
            assert first.answer.structured == {"result": "client"}
            saga = first.saga
            assert saga is not None
            await app.engine.call("create_lead", {"name": "ada"}, saga_id=saga.id, caller=Caller())
            assert world(config) == {"a": 1, "lead": "ada"}
            await app.engine.abort(saga.id, cause="agent")
            ended = await app.engine.rest(saga.id)
            assert ended.phase is Phase.COMPENSATED
            assert [step.state for step in ended.steps] == [StepState.COMPENSATED, StepState.COMPENSATED]
            assert world(config) == {"result": "client"}
            await app.engine.drain(1)
    assert exists(config.with_name("closed"))


async def test_the_default_database_gets_its_folder(config: Path) -> None:
    loaded = load(config)
    with anyio.fail_after(20):
        async with open_app(loaded) as app:
            saga = await app.engine.begin(Caller())
    assert saga.phase is Phase.ACTIVE
    assert exists(config.parent.joinpath("data", "saga-mcp", "test.db"))


async def test_an_app_that_does_not_drive_opens_no_lifespan(config: Path) -> None:
    with anyio.fail_after(20):
        async with open_app(load(config), drive=False):
            pass
    assert not exists(config.with_name("opened"))


async def test_a_lifespan_that_does_not_open_ends_the_app_with_its_name(config: Path) -> None:
    code = CODE.replace('yield "client"', 'raise OSError("no network"); yield')
    write(config.with_name("broken.py"), code)
    write(config, TOML.replace("box.py:registry", "broken.py:registry"))
    with anyio.fail_after(20), pytest.raises(LifespanFailed, match=r"python\.box failed: OSError: no network"):
        async with open_app(load(config)):
            pytest.fail("it opened")


async def test_what_the_block_raises_comes_out_as_it_is(config: Path) -> None:
    with anyio.fail_after(20), pytest.raises(ValueError, match="own"):
        async with open_app(load(config)):
            raise ValueError("own")


@pytest.mark.case(100)
async def test_an_app_ends_although_a_thread_hangs(config: Path) -> None:
    with anyio.fail_after(20):
        async with open_app(load(config)) as app, anyio.create_task_group() as tasks:

            async def call() -> None:
                await app.engine.call("hang", {}, caller=Caller())

            tasks.start_soon(call)
            while not exists(config.with_name("hanging")):  # noqa: ASYNC110 - a thread tells it by a file
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.case(100)
def test_a_process_ends_although_a_thread_hangs(config: Path) -> None:
    """Hosts wait, then kill."""
    program = """
import sys, pathlib, anyio
from saga_mcp.app import load, open_app
from saga_mcp.engine.port import Caller

async def main():
    config = pathlib.Path(sys.argv[1])
    async with open_app(load(config)) as app, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: app.engine.call("hang", {}, caller=Caller()))
        while not config.with_name("hanging").exists():
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await app.engine.drain(0.2)
    print("ended")

anyio.run(main)
"""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, str(config)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert time.monotonic() - began < 20


async def test_the_log_is_where_the_config_says_also_in_a_folder_whose_name_means_something_in_a_url(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "why?x=1%20#"
    folder.mkdir()
    config = folder / "saga.toml"
    write(config, '[saga]\ndatabase = "sqlite:///log.db"\n')
    with anyio.fail_after(20):
        async with open_app(load(config)) as app:
            await app.engine.begin(Caller())
    assert names_in(folder) == ["log.db", "log.db.owners", "saga.toml"]
    assert names_in(tmp_path) == [folder.name]
