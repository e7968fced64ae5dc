"""Alerts as CloudEvents over a webhook: one POST each, signed where there is a secret (SEMANTICS.md S10.6).

CloudEvents 1.0 in structured mode (cloudevents.io), signed as Standard Webhooks has it (standardwebhooks.com). At the
edge because the other side is a stranger: of what it answers nothing is read but the status, and each attempt ends in a
bounded time. Its URL may hold a secret, so that no part of it is ever said.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import anyio
import httpx2
from standardwebhooks import Webhook as Signer

from saga_mcp.domain.values import JsonObject
from saga_mcp.log.outbox import PendingAlert

ATTEMPT_S: Final = 10.0
"""How long an attempt may take as a whole, from the look-up of the name to the status."""
_CONTENT: Final = "application/cloudevents+json; charset=utf-8"


class Webhook:
    """A receiver of alerts. Made by `open`."""

    def __init__(self, url: str, signer: Signer | None, client: httpx2.AsyncClient) -> None:
        self._url = url
        self._signer = signer
        self._client = client

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url: str, secret: str) -> AsyncGenerator[Webhook]:
        """Be able to send until the block ends; nothing is sent by itself.

        Args:
            url: Of the receiver; `http`, or `https`, whose certificate is verified.
            secret: `whsec_` and base64, as Standard Webhooks has it; empty: nothing is signed.
        """
        headers = {"user-agent": "saga-mcp", "accept": "*/*", "accept-encoding": "identity"}
        async with httpx2.AsyncClient(headers=headers, timeout=ATTEMPT_S, follow_redirects=False) as client:
            yield cls(url, Signer(secret) if secret else None, client)

    async def send(self, alert: PendingAlert) -> str:
        """Send it once: empty where it was acknowledged with a 2xx, else why not."""
        body = json.dumps(cloud_event(alert), ensure_ascii=True, separators=(",", ":"))
        return await self._ask(
            "POST", body, {"content-type": _CONTENT, **self._signed(alert.id, body)}, _unacknowledged
        )

    async def reach(self) -> str:
        """Ask whether somebody is there, without telling anything: empty, or why not."""
        return await self._ask("OPTIONS", "", {}, lambda _: "")

    def _signed(self, message_id: str, body: str) -> dict[str, str]:
        if self._signer is None:
            return {}
        now = datetime.now(tz=UTC)
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(message_id, now, body),
        }

    async def _ask(self, method: str, body: str, headers: dict[str, str], judge: Callable[[int], str]) -> str:
        try:
            with anyio.fail_after(ATTEMPT_S):
                # What is answered besides the status is left unread, however much it is.
                async with self._client.stream(method, self._url, content=body, headers=headers) as response:
                    return judge(response.status_code)
        except TimeoutError:
            return f"no answer within {ATTEMPT_S:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return type(error).__name__  # its text may hold the URL


def cloud_event(alert: PendingAlert) -> JsonObject:
    """The event as it is sent, in structured mode."""
    return {
        "specversion": "1.0",
        "id": alert.id,
        "source": f"/saga-mcp/{quote(alert.realm, safe='')}",
        "type": f"saga-mcp.{alert.type}",
        "subject": alert.subject,
        "time": datetime.fromtimestamp(alert.at, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": alert.data,
    }


def _unacknowledged(status: int) -> str:
    if 200 <= status < 300:  # noqa: PLR2004 - RFC 9110: successful
        return ""
    if 300 <= status < 400:  # noqa: PLR2004 - RFC 9110: redirection
        return f"HTTP {status}: redirects are not followed"
    return f"HTTP {status}"
