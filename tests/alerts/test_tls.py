"""Alerts go over TLS to whoever proves to be the receiver, and to nobody else."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from tests.alerts.receiver import receiving
from tests.alerts.test_hostile import ALERT

from saga_mcp.edge.webhook import Webhook


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """Whom this process trusts, as an administrator says it: by a file that is named in the environment."""
    authority = trustme.CA()
    file = tmp_path / "trusted.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    return authority


def receiver_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with certificate.private_key_and_cert_chain_pem.tempfile() as file:
        context.load_cert_chain(file)
    return context


async def told(certificate: trustme.LeafCert, host: str = "127.0.0.1") -> tuple[str, int]:
    """Why a receiver with that certificate was not told an alert, and how many requests it got."""
    async with receiving(tls=receiver_of(certificate)) as receiver:
        async with Webhook.open(receiver.url.replace("127.0.0.1", host), "") as webhook:
            reason = await webhook.send(ALERT)
            assert (await webhook.reach() == "") == (reason == "")
        return reason, len(receiver.requests)


async def test_a_receiver_with_a_certificate_of_a_trusted_authority_is_told(authority: trustme.CA) -> None:
    assert await told(authority.issue_cert("127.0.0.1")) == ("", 2)


@pytest.mark.usefixtures("authority")
async def test_a_receiver_that_only_vouches_for_itself_is_told_nothing() -> None:
    assert await told(trustme.CA().issue_cert("127.0.0.1")) == ("ConnectError", 0)


async def test_a_receiver_with_the_certificate_of_another_host_is_told_nothing(authority: trustme.CA) -> None:
    assert await told(authority.issue_cert("hooks.example.com")) == ("ConnectError", 0)
    assert await told(authority.issue_cert("127.0.0.1"), host="localhost") == ("ConnectError", 0)


async def test_a_certificate_that_is_over_proves_nothing(authority: trustme.CA) -> None:
    over = datetime.now(tz=UTC) - timedelta(days=1)
    assert await told(authority.issue_cert("127.0.0.1", not_after=over)) == ("ConnectError", 0)
