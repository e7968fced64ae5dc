"""The saga log is locked, full, read-only or damaged, before a call and between its effect and its outcome.

Before it nothing is sent, and the agent is told so. Afterwards no reply says that the outcome is stored, or that
nothing was sent; when the trouble is over, or at the next start, the saga ends as it should (DESIGN.md rules 1, 2).
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.product import Client, Product
from tests.world.disk import fill_up, make_read_only
from tests.world.server import eventually

BACKED_UP = ("saga.db", "saga.db-wal", "saga.db-shm")


@contextlib.contextmanager
def locked(product: Product) -> Generator[None]:
    """Hold the database's write lock, as some other program might."""
    with contextlib.closing(sqlite3.connect(product.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.contextmanager
def full(product: Product) -> Generator[None]:
    """A real one: the database lies on a small file system of its own."""
    ballast = fill_up(product.database.parent)
    yield
    ballast.unlink()


@contextlib.contextmanager
def read_only(product: Product) -> Generator[None]:
    """What SQLite says where the kernel takes no writes any more: no kernel lets a test do that to an open file."""
    flag = product.folder / "read-only"
    flag.touch()
    yield
    flag.unlink()


READ_ONLY_SQLITE = """
import os, sqlite3

class Cursor(sqlite3.Cursor):
    def execute(self, statement, *more):
        if statement == "BEGIN IMMEDIATE" and os.path.exists({flag!r}):
            error = sqlite3.OperationalError("attempt to write a readonly database")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_READONLY, "SQLITE_READONLY"
            raise error
        return super().execute(statement, *more)

real = sqlite3.connect

def connect(*where, factory=sqlite3.Connection, **how):
    class Connection(factory):
        def cursor(self, factory=Cursor):
            return super().cursor(factory)

    return real(*where, factory=Connection, **how)

sqlite3.connect = connect
"""


@contextlib.contextmanager
def damaged(product: Product) -> Generator[None]:
    """Every byte of it is overwritten, what processes share in memory too; then a backup is put in its place.

    Of less SQLite learns only when it reads there again (docs/decisions.md).
    """
    files = [product.database.with_name(name) for name in BACKED_UP]
    backup = product.folder / "backup"
    backup.mkdir()
    for file in files:
        shutil.copy(file, backup)
    for file in files:
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.write(b"\xff" * size)
    yield
    for file in files:
        shutil.copy(backup / file.name, file)


@dataclass(frozen=True)
class Trouble:
    """One way in which a log is of no use for a while."""

    upon: Callable[[Product], AbstractContextManager[None]]
    said: str
    """What a refusal says."""
    survived: bool = True
    """The process that met it can go on afterwards."""
    small_disk: bool = False


LOCKED = Trouble(locked, "has not taken this call in time")
FULL = Trouble(full, "o space left", small_disk=True)
READ_ONLY = Trouble(read_only, "cannot be written")
DAMAGED = Trouble(damaged, "is damaged", survived=False)

TROUBLES = pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(LOCKED, id="locked"),
        pytest.param(FULL, id="full"),
        pytest.param(READ_ONLY, id="read-only"),
        pytest.param(DAMAGED, id="damaged"),
    ],
)


@pytest.fixture
def troubled(request: pytest.FixtureRequest, trouble: Trouble, tmp_path: Path) -> Product:
    """The product over a database that this trouble can befall."""
    where = f"{request.getfixturevalue('small_disk')}/saga.db" if trouble.small_disk else "saga.db"
    product = Product(tmp_path, database=where)
    product.configure("reply_within_s = 2.0")
    return product


def _first(product: Product) -> str:
    return READ_ONLY_SQLITE.format(flag=str(product.folder / "read-only"))


@pytest.mark.slow
@pytest.mark.case(45, 108)
@TROUBLES
async def test_before_a_call_nothing_is_sent_and_the_agent_is_told(troubled: Product, trouble: Trouble) -> None:
    async with troubled.serve(first=_first(troubled)) as agent:
        saga_id = await agent.begin()
        with trouble.upon(troubled):
            call = await agent.ask("reserve", item="a", saga_id=saga_id)
            if trouble is LOCKED:
                assert (await agent.status(saga_id))["state"] == "active"  # reads go on
            reply = await agent.reply_to(call)
            assert (reply.is_error, reply.code) == (True, "log_unavailable")
            assert trouble.said in reply.text
            assert troubled.world.sent() == []
            if not trouble.survived:
                agent.kill()
                await agent.ended.wait()
        if trouble.survived:
            await _goes_on(agent, saga_id)
    if not trouble.survived:
        async with troubled.serve() as agent:
            await _goes_on(agent, saga_id)
    assert troubled.world.standing == ["reserve(b)"]


@pytest.mark.case(45)
@pytest.mark.slow
async def test_a_lock_is_waited_for_and_then_named(product: Product) -> None:
    """With the patience that the product has by itself."""
    async with product.serve() as agent:
        saga_id = await agent.begin()
        with locked(product):
            reply = await agent.call("reserve", item="a", saga_id=saga_id)
            assert (reply.is_error, reply.code) == (True, "log_unavailable")
            assert "locked by another program" in reply.text
        await _goes_on(agent, saga_id)
    assert product.world.order == ["reserve(b)"]


async def _goes_on(agent: Client, saga_id: str) -> None:
    assert not (await agent.call("reserve", item="b", saga_id=saga_id)).is_error
    assert (await agent.call("saga_commit", saga_id=saga_id)).state == "committed"


@pytest.mark.slow
@pytest.mark.case(45)
@TROUBLES
async def test_an_effect_that_cannot_be_recorded_is_neither_called_stored_nor_lost(
    troubled: Product, trouble: Trouble
) -> None:
    """The outcome is in the server's hands until it can be stored, or until the next start finds the open intent."""
    async with troubled.serve(first=_first(troubled)) as agent:
        saga_id = await agent.begin()
        step = await agent.ask("reserve", item="a", mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(troubled.world.sent("reserve")) == 1)
        with trouble.upon(troubled):
            troubled.world.go()
            await _is_told_that_it_is_not_known(agent, step)
            if not trouble.survived:
                agent.kill()
                await agent.ended.wait()
        if trouble.survived:
            await agent.at_rest(saga_id)
            assert (await agent.call("saga_commit", saga_id=saga_id)).state == "committed"
    if not trouble.survived:
        async with troubled.serve() as agent:
            assert (await agent.until(saga_id, "compensated"))["cause"]["code"] == "step_failed:1"
    assert troubled.world.order == (["reserve(a)"] if trouble.survived else ["reserve(a)", "release(a)"])


@pytest.mark.slow
@TROUBLES
async def test_an_effect_that_was_never_recorded_is_found_at_the_next_start(
    troubled: Product, trouble: Trouble
) -> None:
    """With a pair that must not be undone blindly: its probe tells."""
    troubled.configure('reply_within_s = 2.0\non_error = "hold"')
    async with troubled.serve(first=_first(troubled)) as agent:
        saga_id = await agent.begin()
        step = await agent.ask("charge", cents=5, mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(troubled.world.sent("charge")) == 1)
        with trouble.upon(troubled):
            troubled.world.go()
            await _is_told_that_it_is_not_known(agent, step)
            agent.kill()
            await agent.ended.wait()
    async with troubled.serve() as agent:
        status = await agent.at_rest(saga_id)
        assert (status["state"], status["steps"][0]["state"]) == ("active", "succeeded")
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert troubled.world.order == ["charge(5)", "refund(5)"]


async def _is_told_that_it_is_not_known(agent: Client, step: int) -> None:
    reply = await agent.reply_to(step)
    assert reply.is_error
    assert reply.code in {"still_running", "outcome_unknown"}
    assert "othing was sent" not in reply.text
    await eventually(lambda: "outcome_waits_for_the_log" in agent.log)


@pytest.mark.slow
async def test_a_server_that_others_do_not_see_says_that_it_undoes_nothing(product: Product) -> None:
    """Its file beside the log was removed."""
    product.configure("reply_within_s = 1.0")
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        shutil.rmtree(product.database.with_name("saga.db.owners"))
        await eventually(lambda: "claim_lost" in agent.log)
        aborted = await agent.call("saga_abort", saga_id=saga_id)
        assert (aborted.is_error, aborted.code) == (True, "log_unavailable")
        (move,) = (await agent.status(saga_id))["next"]
        for said in (aborted.text, move):
            assert "does nothing more" in said
            assert "restart the server" in said
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    assert product.world.order == ["reserve(a)", "release(a)"]


@pytest.mark.slow
async def test_a_server_on_a_read_only_disk_does_not_start_and_says_why(tmp_path: Path, small_disk: Path) -> None:
    """A real one, which also root cannot write to."""
    product = Product(tmp_path, database=f"{small_disk}/saga.db")
    async with product.serve() as agent:
        await agent.begin()
        await agent.close_stdin()
        assert await agent.exits(5) == 0
    make_read_only(small_disk)
    code, output = await product.run("serve")
    assert code == 1
    assert "Read-only file system" in output
    assert product.world.sent() == []


@pytest.mark.slow
@pytest.mark.parametrize("living", [True, False], ids=["beside-a-server", "without-one"])
@pytest.mark.parametrize("trouble", [fill_up, make_read_only], ids=["full", "read-only"])
async def test_what_is_open_can_be_looked_at_on_a_disk_that_takes_no_writes(
    small_disk: Path, trouble: Callable[[Path], object], *, living: bool
) -> None:
    if living and trouble is make_read_only:
        pytest.skip("no kernel lets a test do that to an open file")
    product = Product(small_disk.parent, database="disk/saga.db")
    async with product.serve() as agent:
        saga_id = (await agent.call("reserve", item="a")).saga_id
        if living:
            trouble(small_disk)
            await _all_looks(product, saga_id)
    if not living:
        trouble(small_disk)
        await _all_looks(product, saga_id)


async def _all_looks(product: Product, saga_id: str) -> None:
    for command in (["list"], ["show", saga_id], ["show", saga_id, "--timeline"], ["export", saga_id]):
        code, said = await product.run(*command)
        assert (code, "1 done, 0 open" in said or saga_id in said) == (0, True), said
    assert (await product.run("attention"))[0] == 0
