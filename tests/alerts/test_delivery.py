"""Alerts at a real receiver, from an engine in this process (SEMANTICS.md S10.6)."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.alerts.receiver import Receiver, status
from tests.world.clock import ManualClock
from tests.world.reading import World
from tests.world.server import SETTINGS, Server, eventually, served

from saga_mcp.domain.attention import items
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.person_decisions import exempt, retry
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.edge.webhook import Webhook
from saga_mcp.engine.alerting import PARK_AFTER_S
from saga_mcp.log.outbox import Outbox, PendingAlert
from saga_mcp.log.sql import SqlSagaLog


def outbox_of(server: Server) -> Outbox:
    assert isinstance(server.log, SqlSagaLog)
    return server.log.outbox


async def pending(server: Server) -> int:
    return (await outbox_of(server).counts(SETTINGS.realm)).pending


async def stuck(server: Server) -> str:
    """A saga whose rollback waits for a person: its item is open."""
    saga_id = (await server.call("post", to="bob@example.org")).saga_id
    await server.abort(saga_id)
    return saga_id


async def settle(server: Server, saga_id: str, step: int = 1) -> None:
    """A person ends the item, and with it the saga."""

    def decide(saga: Saga, driving: Driving) -> tuple[Event, ...]:
        return exempt(saga, step, by="ada", note="", driving=driving)

    await server.engine.decide_item(saga_id, decide)


async def test_what_waits_for_a_person_and_how_it_ends_is_told_in_order(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    async with served(database, sender=webhook) as server:
        saga_id = await stuck(server)
        await settle(server, saga_id)
        await receiver.until_told(4)
        await eventually(lambda: _none_left(server))
    assert receiver.told == [
        ("item.opened", f"{saga_id}.1"),
        ("saga.needs_attention", saga_id),
        ("item.closed", f"{saga_id}.1"),
        ("saga.compensated", saga_id),
    ]
    assert world.order == ["post(bob@example.org)"]


async def _none_left(server: Server) -> bool:
    return await pending(server) == 0


async def test_a_commit_is_told_as_a_cloud_event(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    async with served(database, sender=webhook) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await server.commit(saga_id)
        await receiver.until_told(1)
    (request,) = receiver.requests
    assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    event = request.event
    assert event.pop("time").endswith("Z")
    assert event == {
        "specversion": "1.0",
        "id": f"{saga_id}:4:0",
        "source": "/saga-mcp/ledger",
        "type": "saga-mcp.saga.committed",
        "subject": saga_id,
        "datacontenttype": "application/json",
        "data": {"saga": saga_id, "state": "committed", "open_items": 0},
    }
    assert world.standing


async def test_of_a_revert_each_saga_tells_its_own_end_in_order(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    async with served(database, sender=webhook) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("post", saga_id, to="bob@example.org")  # its undo is a person's
        await server.commit(saga_id)
        await receiver.until_told(1)
        begun = await server.engine.revert(saga_id, RevertOrder(by="ada", reason="a secret mistake"))
        (item,) = items(await server.until(begun.id, lambda saga: bool(items(saga))))
        await receiver.until_told(4)
        await settle(server, begun.id, item.step)
        await receiver.until_told(6)
        await eventually(lambda: _none_left(server))

    def told_of(name: str) -> list[tuple[str, str]]:
        of_it = [event for event in receiver.events if event["data"]["saga"] == name]
        seqs = [int(event["id"].split(":")[1]) for event in of_it if event["id"].startswith(f"{name}:")]
        assert (len(seqs), seqs) == (len(of_it), sorted(seqs))
        return [(event["type"].removeprefix("saga-mcp."), event["subject"]) for event in of_it]

    assert told_of(saga_id) == [("saga.committed", saga_id), ("saga.reverted", saga_id)]
    assert told_of(begun.id) == [
        ("item.opened", item.name),
        ("saga.needs_attention", begun.id),
        ("item.closed", item.name),
        ("saga.compensated", begun.id),
    ]
    assert not any(b"secret" in request.body or b"bob" in request.body for request in receiver.requests)
    assert world.order == ["reserve(a)", "post(bob@example.org)", "release(a)"]


async def test_nothing_is_kept_where_nobody_is_to_be_told(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await stuck(server)
        assert await outbox_of(server).counts(SETTINGS.realm) == await outbox_of(server).counts("no such realm")
        assert [item.step for item in await server.items(saga_id)] == [1]
    assert world.standing


async def test_an_alert_is_sent_again_under_its_id_until_it_is_acknowledged(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    receiver.answer = status("503 Service Unavailable")
    async with served(database, sender=webhook) as server:
        await stuck(server)
        first = (await receiver.until_told(3))[0]
        assert {event["id"] for event in receiver.events} == {first["id"]}
        receiver.answer = status("200 OK")
        await eventually(lambda: _none_left(server))
    ids = [event["id"] for event in receiver.events]
    assert list(dict.fromkeys(ids)) == ids[-2:]
    assert world.standing


async def test_what_was_not_acknowledged_for_a_day_waits_for_a_person_and_goes_on_after_a_retry(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    receiver.answer = status("500 Internal Server Error")
    async with served(database, sender=webhook) as server:
        saga_id = await stuck(server)
        await receiver.until_told(3)
        assert [item.step for item in await server.items(saga_id)] == [1]
        await watched(server, PARK_AFTER_S)
        await server.until(saga_id, lambda saga: saga.alerts_parked)
        parked, others = await server.items(saga_id)
        assert (parked.name, parked.kind, others.step) == (f"{saga_id}.0", "outbox_parked", 1)
        await settle(server, saga_id)
        assert await server.state(saga_id) == "compensated"
        counts = await outbox_of(server).counts(SETTINGS.realm)
        assert (counts.pending, counts.parked) == (0, 4)
        told = len(receiver.events)
        receiver.answer = status("204 No Content")
        await retry_alerts(server, saga_id)
        await receiver.until_told(told + 4)
        await eventually(lambda: _none_left(server))
        assert await server.items(saga_id) == ()
    assert [kind for kind, _ in receiver.told[told:]] == [
        "item.opened",
        "saga.needs_attention",
        "item.closed",
        "saga.compensated",
    ]
    assert world.standing


async def watched(server: Server, seconds: float) -> None:
    """Let the realm have been watched for so long."""
    seen = await server.log.observe(SETTINGS.realm, -1.0, 0.0)
    assert await server.log.observe(SETTINGS.realm, seen, seconds) == seen + seconds


async def retry_alerts(server: Server, saga_id: str) -> None:
    await server.engine.decide_item(saga_id, lambda saga, driving: retry(saga, 0, by="ada", note="", driving=driving))


async def test_a_receiver_that_is_down_is_asked_less_and_less_often(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    clock = ManualClock()
    receiver.answer = status("500 Internal Server Error")
    async with served(database, sender=webhook, clock=clock) as server:
        await server.commit((await server.call("reserve", item="a")).saga_id)
        for attempts in range(1, 10):

            def failed_so_often(times: int = attempts) -> bool:
                if len(clock.drawn) < 2 * times:
                    clock.advance(300.0)
                return len(clock.drawn) >= 2 * times

            await eventually(failed_so_often)
            assert len(receiver.events) == attempts
    waits = [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert clock.drawn == [each for n, wait in enumerate(waits) for each in (wait, min(300, 2**n))]
    assert world.standing


class Hanging:
    """A sender that never comes back."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def send(self, alert: PendingAlert) -> str:
        self.asked.append(alert.id)
        await anyio.sleep_forever()
        return ""


async def test_a_claim_of_a_living_process_is_left_alone_until_it_has_not_moved_for_a_minute(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    hanging, clock = Hanging(), ManualClock()
    async with served(database, sender=hanging) as stopped:
        saga_id = (await stopped.call("reserve", item="a")).saga_id
        await stopped.commit(saga_id)
        await eventually(lambda: bool(hanging.asked))
        async with served(database, sender=webhook, clock=clock):
            began = clock.now()

            def sent() -> bool:
                clock.advance(1.0)
                return bool(receiver.events)

            await eventually(sent)
            assert clock.now() - began >= 60.0
    assert [event["id"] for event in receiver.events] == hanging.asked
    assert world.standing
