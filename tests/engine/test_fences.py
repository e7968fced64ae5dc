"""A process that stood still, or that others did not see, starts nothing on what it knew before (S3.5, S5.3, S10.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup
from tests.domain import alphabet as a
from tests.domain.stories import DRIVING, aborted, done, in_doubt, intended, saga_of
from tests.world.server import ME, Server, served

from saga_mcp.domain import events as e
from saga_mcp.domain.duties import RunUndo, duties
from saga_mcp.domain.errors import LogUnavailable, ResourceHeld
from saga_mcp.domain.living import Life
from saga_mcp.domain.machine import fold
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import attempt_again, probed_absent
from saga_mcp.domain.undo_decisions import undo_intended, undo_lost
from saga_mcp.domain.undo_parts import part_of
from saga_mcp.domain.values import Kind, OnError, Phase
from saga_mcp.engine.drivers.local import LocalDriver
from saga_mcp.engine.probing import of_attempt
from saga_mcp.engine.undo_probing import settling
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import Claim, Owners
from saga_tools import ToolRegistry, Undo


class Sight:
    """What a process knows of others, and of itself, where a test says that it is not so."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self.taken_for: dict[str, Life] = {}
        self.claim: Claim | None = None

    @property
    def me(self) -> str:
        return self._owners.me

    @property
    def trouble(self) -> str:
        return self._owners.trouble

    def mark(self) -> Path:
        return self._owners.mark()

    async def others_serve(self, realm: str) -> bool:
        return await self._owners.others_serve(realm)

    @property
    def standing(self) -> Claim:
        return self.claim or self._owners.standing

    async def look(self, owners: Collection[str]) -> Mapping[str, Life]:
        found = await self._owners.look(owners)
        return {owner: self.taken_for.get(owner, life) for owner, life in found.items()}


def driver_with(sights: list[Sight]) -> Callable[[Workshop, TaskGroup], LocalDriver]:
    def driver(shop: Workshop, tasks: TaskGroup) -> LocalDriver:
        sights.append(Sight(shop.owners))
        shop.owners = sights[-1]
        return LocalDriver(shop, tasks)

    return driver


class Held:
    """A read or a call that began, and goes on when it may."""

    def __init__(self) -> None:
        self.began = anyio.Event()
        self.go_on = anyio.Event()

    async def wait(self) -> None:
        self.began.set()
        await self.go_on.wait()


async def test_a_process_that_lost_the_driving_begins_no_further_undo(tmp_path: Path) -> None:
    undone: list[str] = []
    held = Held()

    def tools(who: str) -> ToolRegistry:
        registry = ToolRegistry()

        async def put(item: str) -> str:
            """Put."""
            return item

        async def take(item: str) -> None:
            if item == "c":
                await held.wait()
            undone.append(f"{item} by {who}")

        registry.undoes(registry.tool(put))(take)
        return registry

    sights: list[Sight] = []
    driver, database = driver_with(sights), tmp_path / "saga.db"
    async with (
        served(database, tools=tools("one"), driver=driver, reply_within_s=0.1) as one,
        served(database, tools=tools("two"), driver=driver) as two,
    ):
        saga_id = await one.begin()
        for item in "abc":
            await one.call("put", saga_id, item=item)
        await one.abort(saga_id)
        with anyio.fail_after(5):
            await held.began.wait()
        sights[1].taken_for[one.owner] = Life.STALLED
        await two.until(saga_id, lambda saga: saga.driver == two.owner)
        held.go_on.set()
        await two.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert undone == ["c by one", "b by two", "a by two"]


@pytest.mark.parametrize("claim", [Claim.LOST, Claim.AWAITED])
async def test_nothing_is_sent_by_a_process_that_others_stopped_seeing_while_it_captured(
    tmp_path: Path, claim: Claim
) -> None:
    sent: list[str] = []
    sights: list[Sight] = []
    registry = ToolRegistry()

    async def put(item: str) -> None:
        """Put."""
        sent.append(item)

    async def before(item: str) -> str:
        sights[0].claim = claim
        return item

    async def take(item: str) -> None:
        sent.append(f"not {item}")

    registry.tool(put)
    registry.captures(put)(before)
    registry.undoes(put)(take)
    async with served(tmp_path / "saga.db", tools=registry, driver=driver_with(sights)) as one:
        saga_id = await one.begin()
        with pytest.raises(LogUnavailable, match="nothing was sent"):
            await one.call("put", saga_id, item="a")
        assert sent == []
        assert await one.history(saga_id) == ["SagaOpened"]


async def test_a_call_whose_lock_was_taken_over_reads_anew_what_it_is_about_to_change(tmp_path: Path) -> None:
    """Its undo would put back what was there before the other saga's committed work."""
    world = {"f": "old"}
    held = Held()

    def tools(*, slow: bool) -> ToolRegistry:
        registry = ToolRegistry()

        async def write(path: str, text: str) -> None:
            """Write."""
            world[path] = text

        async def before(path: str) -> str:
            was = world[path]
            if slow and not held.go_on.is_set():
                await held.wait()
            return was

        async def restore(path: str, undo: Undo[None]) -> None:
            world[path] = str(undo.capture)

        registry.tool(write)
        registry.captures(write)(before)
        registry.undoes(write)(restore)
        return registry

    sights: list[Sight] = []
    codes: list[str] = []
    driver, database = driver_with(sights), tmp_path / "saga.db"
    async with (
        served(database, tools=tools(slow=True), driver=driver) as one,
        served(database, tools=tools(slow=False), driver=driver) as two,
        anyio.create_task_group() as calls,
    ):
        mine, theirs = await one.begin(), await two.begin()
        calls.start_soon(_write, one, mine, codes)
        with anyio.fail_after(5):
            await held.began.wait()
        with pytest.raises(ResourceHeld):
            await two.call("write", theirs, path="f", text="theirs")
        sights[1].taken_for[one.owner] = Life.UNSEEN
        assert (await two.call("write", theirs, path="f", text="theirs")).code == ""
        await two.commit(theirs)
        held.go_on.set()
        await one.until(mine, lambda saga: bool(saga.steps) and not saga.running)
        assert world == {"f": "mine"}
        assert (await one.abort(mine)).phase is Phase.COMPENSATED
    assert codes == [""]
    assert world == {"f": "theirs"}


async def _write(server: Server, saga_id: str, codes: list[str]) -> None:
    arguments = {"path": "f", "text": "mine"}
    codes.append((await server.engine.call("write", arguments, saga_id=saga_id, caller=ME)).code)


def test_a_probe_that_found_nothing_says_nothing_of_an_attempt_that_came_after_it() -> None:
    """S3.4: that one may have landed meanwhile."""
    plan = e.StepPlan(tool="t", kind=Kind.COMPENSABLE, has_probe=True, idempotent=True)
    saga = saga_of(intended(1, plan), in_doubt(1), on_error=OnError.HOLD)
    absent = of_attempt(1, saga.step(1).attempts, probed_absent)
    assert fold(saga, absent(saga, DRIVING)).step(1).landed is False
    again = fold(saga, (*attempt_again(saga, 1, "me"), e.StepRunEnded(step=1, end_known=True)))
    assert absent(again, DRIVING) == ()


def test_a_probe_of_an_undo_says_nothing_of_an_attempt_that_came_after_it() -> None:
    """S6.4: what it found undone or not was before that."""
    saga = _sent_and_lost(saga_of(*done(1, a.PROBED), aborted()))
    part = part_of(saga.step(1), "1")
    assert part is not None
    not_done = settling(saga.step(1), part, done=False)
    retried = fold(saga, not_done(saga, DRIVING))
    assert [duty.step.number for duty in duties(retried) if isinstance(duty, RunUndo)] == [1]
    assert not_done(_sent_and_lost(retried), DRIVING) == ()


def _sent_and_lost(saga: Saga) -> Saga:
    saga = fold(saga, undo_intended(saga, 1, "1", "me"))
    return fold(saga, undo_lost(saga, 1, "1", "transport_lost", DRIVING))


def test_only_the_driver_of_a_saga_begins_an_undo() -> None:
    saga = saga_of(*done(1), aborted())
    assert undo_intended(saga, 1, "1", "me") != ()
    assert undo_intended(fold(saga, [e.SagaClaimed(driver="other")]), 1, "1", "me") == ()
