"""Alerts of real processes: killed, two at a time, about to end, and with nobody left (SEMANTICS.md S10.6)."""

from __future__ import annotations

import base64
import json
from itertools import pairwise

import anyio
import pytest
from anyio.abc import ByteStream
from standardwebhooks import Webhook as Verifier
from tests.alerts.receiver import Receiver, Request, status
from tests.e2e.product import Product

SECRET = "whsec_" + "c2FnYS1tY3A" * 3 + "AAA="


@pytest.fixture
def told(product: Product, receiver: Receiver) -> Product:
    """The product, whose alerts go to the receiver."""
    product.configure(tools=f'[alerts]\nwebhook = "{receiver.url}"\n')
    return product


def holding(receiver: Receiver) -> anyio.Event:
    """Let the receiver take what comes, and acknowledge it only once the event is set."""
    go = anyio.Event()

    async def answer(request: Request, stream: ByteStream) -> None:
        await go.wait()
        await status("200 OK")(request, stream)

    receiver.answer = answer
    return go


@pytest.mark.slow
async def test_what_a_killed_server_was_sending_is_sent_again_under_the_same_id(
    told: Product, receiver: Receiver
) -> None:
    acknowledge = holding(receiver)
    async with told.serve() as client:
        saga_id = await client.begin()
        await client.call("reserve", item="a", saga_id=saga_id)
        assert (await client.call("saga_commit", saga_id=saga_id)).state == "committed"
        await receiver.until_told(1)
        client.kill()
        await client.ended.wait()
    acknowledge.set()  # the receiver has taken it, and the one who is told so is dead
    async with told.serve():
        await receiver.until_told(2)
        once, again = receiver.events
    assert once == again
    assert once["id"] == f"{saga_id}:4:0"


@pytest.mark.slow
async def test_a_receiver_that_hangs_delays_no_call_no_rollback_and_no_end(told: Product, receiver: Receiver) -> None:
    holding(receiver)
    async with told.serve() as client:
        for item in "abcdef":
            saga_id = await client.begin()
            await client.call("reserve", item=item, saga_id=saga_id)
            assert (await client.call("saga_abort", saga_id=saga_id)).state == "compensated"
        await receiver.until(lambda: receiver.open >= 4)
        await client.close_stdin()
        assert await client.exits(within_s=9) == 0
    assert receiver.most_open == 4


@pytest.mark.slow
async def test_of_two_servers_one_sends_each_alert_and_each_saga_s_in_order(told: Product, receiver: Receiver) -> None:
    async with told.serve() as one, told.serve() as two:
        sagas: list[str] = []
        for number, client in enumerate((one, two) * 4):
            saga_id = await client.begin()
            sagas.append(saga_id)
            await client.call("post", to=f"letter {number}", saga_id=saga_id)
            assert (await client.call("saga_abort", saga_id=saga_id)).state == "needs_attention"
        await receiver.until_told(2 * len(sagas))
    ids = [event["id"] for event in receiver.events]
    assert len(set(ids)) == len(ids) == 2 * len(sagas)
    for saga_id in sagas:
        mine = [tuple(map(int, each.split(":")[1:])) for each in ids if each.startswith(saga_id)]
        assert all(earlier < later for earlier, later in pairwise(mine))
        assert [kind for kind, subject in receiver.told if subject.startswith(saga_id)] == [
            "item.opened",
            "saga.needs_attention",
        ]


async def test_alerts_are_signed_as_standard_webhooks_has_it(told: Product, receiver: Receiver) -> None:
    told.configure(tools=f'[alerts]\nwebhook = "{receiver.url}"\nsecret = "${{env:ALERT_SECRET}}"\n')
    async with told.serve(env={"ALERT_SECRET": SECRET}) as client:
        saga_id = await client.begin()
        await client.call("saga_commit", saga_id=saga_id)
        await receiver.until_told(1)
    (request,) = receiver.requests
    assert Verifier(SECRET).verify(request.body, dict(request.headers)) == request.event
    assert request.headers["webhook-id"] == request.event["id"]


@pytest.mark.slow
async def test_neither_alerts_nor_the_log_of_the_program_hold_values_or_the_url(
    told: Product, receiver: Receiver
) -> None:
    receiver.answer = status("500 Internal Server Error")
    bomb = "Drop-Table-" + "x" * 200_000
    async with told.serve("--log-json") as client:
        saga_id = await client.begin()
        await client.call("post", to=bomb, saga_id=saga_id)
        await client.call("saga_abort", saga_id=saga_id, reason="because of Drop-Table-1")
        await receiver.until_told(2)
        await client.close_stdin()
        await client.log_ended.wait()
    lines = [json.loads(line) for line in client.log.splitlines()]
    (opened,) = [line for line in lines if line["event"] == "alert" and line["type"] == "item.opened"]
    assert (opened["level"], opened["item"], opened["code"]) == ("warning", f"{saga_id}.1", "manual_undo")
    assert any(line["event"] == "alert_not_acknowledged" and line["reason"] == "HTTP 500" for line in lines)
    for text in (client.log, *(request.body.decode() for request in receiver.requests)):
        assert "Drop-Table" not in text
        assert "s3cret" not in text
    assert max(len(request.body) for request in receiver.requests) < 1000


@pytest.mark.slow
async def test_a_command_after_which_nobody_is_left_delivers_before_it_ends(told: Product, receiver: Receiver) -> None:
    async with told.serve() as client:
        saga_id = await client.begin()
        await client.call("reserve", item="a", saga_id=saga_id)
        client.kill()
        await client.ended.wait()
    code, said = await told.run("abort", saga_id, "--yes")
    assert code == 0, said
    assert receiver.told == [("saga.compensated", saga_id)]


@pytest.mark.slow
async def test_what_nobody_could_deliver_is_kept_and_recover_sends_it(told: Product, receiver: Receiver) -> None:
    receiver.answer = status("503 Service Unavailable")
    async with told.serve() as client:
        saga_id = await client.begin()
        await client.call("saga_commit", saga_id=saga_id)
        await receiver.until_told(1)
    _, said = await told.run("doctor")
    assert "1 alert to be sent" in said
    assert "and no server alive to send them" in said
    assert f"127.0.0.1:{receiver.port} can be reached; what is sent there is not signed" in said
    assert "s3cret" not in said
    receiver.answer = status("204 No Content")
    await anyio.sleep(1.1)  # the longest first back-off, by the wall clock
    code, said = await told.run("recover", "--yes")
    assert code == 0, said
    assert {event["id"] for event in receiver.events} == {f"{saga_id}:2:0"}
    _, said = await told.run("doctor")
    assert "to be sent" not in said


@pytest.mark.slow
async def test_doctor_warns_of_a_receiver_that_is_there_and_takes_nothing(told: Product, receiver: Receiver) -> None:
    receiver.answer = status("500 Internal Server Error")
    async with told.serve() as client:
        saga_id = await client.begin()
        await client.call("saga_commit", saga_id=saga_id)
        await receiver.until_told(2)
        _, said = await told.run("doctor")
    warned = [line for line in said.splitlines() if line.split()[:2] == ["warn", "alerts"]]
    assert len(warned) == 1, said
    assert "; 1 not acknowledged with a 2xx by now, after up to " in warned[0]


@pytest.mark.slow
async def test_with_encrypted_values_alerts_are_counted_by_recover_and_doctor(
    product: Product, receiver: Receiver
) -> None:
    key = base64.b64encode(bytes(range(32))).decode()
    keys = f'[alerts]\nwebhook = "{receiver.url}"\n'
    product.configure(saga='encryption_keys = ["${env:SAGA_KEY}"]\n', tools=keys)
    env = {"SAGA_KEY": key}
    receiver.answer = status("503 Service Unavailable")
    async with product.serve(env=env) as client:
        saga_id = await client.begin()
        await client.call("reserve", item="a", saga_id=saga_id)
        await client.call("saga_commit", saga_id=saga_id)
        await receiver.until_told(1)
        client.kill()
        await client.ended.wait()
    _, said = await product.run("doctor", env=env)
    assert "1 alert to be sent" in said
    assert "0 errors" in said
    receiver.answer = status("204 No Content")
    await anyio.sleep(1.1)  # the longest first back-off, by the wall clock
    code, said = await product.run("recover", "--yes", env=env)
    assert code == 0, said
    assert {event["id"] for event in receiver.events} == {f"{saga_id}:4:0"}
