"""Fixtures of the tests of alerts."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from tests.alerts.receiver import Receiver, receiving

from saga_mcp.edge.webhook import Webhook


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def webhook(receiver: Receiver) -> AsyncGenerator[Webhook]:
    """The way to that receiver, unsigned."""
    async with Webhook.open(receiver.url, "") as webhook:
        yield webhook
