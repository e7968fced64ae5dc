"""Receivers that do what they should not: each attempt ends soon, in little memory, and says no more than it may."""

from __future__ import annotations

import contextlib

import anyio
import pytest
from anyio.abc import ByteStream
from tests.alerts.receiver import Answer, Receiver, Request, receiving, status

from saga_mcp.edge import webhook as module
from saga_mcp.edge.webhook import Webhook
from saga_mcp.log.outbox import PendingAlert

ALERT = PendingAlert(
    saga_id="sg-a", seq=1, n=0, realm="a b/ü", type="saga.committed", subject="sg-a", at=0.0, data={"saga": "sg-a"}
)


@pytest.fixture(autouse=True)
def short_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTEMPT_S", 0.5)


def raw(*parts: bytes, forever: bytes = b"") -> Answer:
    """Answer with these bytes, and then with more of the same for ever."""

    async def answer(_request: Request, stream: ByteStream) -> None:
        for part in parts:
            await stream.send(part)
        while forever:
            await stream.send(forever)
            await anyio.lowlevel.checkpoint()
        await stream.aclose()

    return answer


async def silent(_request: Request, _stream: ByteStream) -> None:
    await anyio.sleep_forever()


async def dripping(_request: Request, stream: ByteStream) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await stream.send(b"x-more: and more\r\n")
        await anyio.sleep(0.05)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status("200 OK"), ""),
        (status("204 No Content"), ""),
        (status("404 Not Found"), "HTTP 404"),
        (status("429 Too Many Requests", "retry-after: 99999999"), "HTTP 429"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n", forever=b"x" * 65536), ""),
        (raw(b"HTTP/1.1 500 X\r\ncontent-encoding: gzip\r\n\r\n", forever=b"\x1f\x8b" * 9999), "HTTP 500"),
        (raw(b"HTTP/1.1 200 OK\r\n", forever=b"x-flood: " + b"y" * 8000 + b"\r\n"), "RemoteProtocolError"),
        (raw(b"\x00\xff nonsense\r\n\r\n"), "RemoteProtocolError"),
        (raw(), "RemoteProtocolError"),
        (silent, "no answer within 0.5 s"),
        (dripping, "no answer within 0.5 s"),
    ],
)
async def test_only_a_2xx_is_an_acknowledgement_and_everything_else_ends_soon(
    answer: Answer, reason: str, receiver: Receiver, webhook: Webhook
) -> None:
    receiver.answer = answer
    with anyio.fail_after(10):
        assert await webhook.send(ALERT) == reason
    assert receiver.requests[0].event["source"] == "/saga-mcp/a%20b%2F%C3%BC"


async def test_an_answer_of_any_size_is_not_read(receiver: Receiver, webhook: Webhook) -> None:
    sent = 0

    async def answer(_request: Request, stream: ByteStream) -> None:
        nonlocal sent
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
        with contextlib.suppress(anyio.BrokenResourceError):
            while True:
                await stream.send(b"x" * 65536)
                sent += 65536

    receiver.answer = answer
    assert await webhook.send(ALERT) == ""
    await receiver.until_idle()
    assert sent < 50_000_000


async def test_redirects_are_not_followed(receiver: Receiver, webhook: Webhook) -> None:
    async with receiving() as elsewhere:
        for code in ("301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"):
            receiver.answer = status(code, f"location: {elsewhere.url}")
            assert await webhook.send(ALERT) == f"HTTP {code[:3]}: redirects are not followed"
        assert elsewhere.requests == []


async def test_a_receiver_that_is_not_there_is_told_without_its_url(receiver: Receiver) -> None:
    async with receiving() as gone:
        url = gone.url
    async with Webhook.open(url, "") as webhook:
        assert await webhook.send(ALERT) == "ConnectError"
        assert await webhook.reach() == "ConnectError"
    async with Webhook.open(receiver.url, "") as webhook:
        assert await webhook.reach() == ""
    assert [request.method for request in receiver.requests] == ["OPTIONS"]
