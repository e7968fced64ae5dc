"""`[alerts]`: who is told when something waits for a person or a saga ends."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field

from saga_mcp.config.filled import Filling
from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import KeyPath
from saga_mcp.config.table import Table
from saga_mcp.config.validate import validate

_WEBHOOK: Final[KeyPath] = ("alerts", "webhook")
_SECRET: Final[KeyPath] = ("alerts", "secret")
_REFERENCE: Final = re.compile(r"\$\{(env|file):[^}]+\}")
_PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""Of a secret, in bytes: what Standard Webhooks asks for."""
_HOW_TO_MAKE_ONE: Final = (
    "python -c \"import base64, os; print('whsec_' + base64.b64encode(os.urandom(32)).decode())\" makes one"
)


class AlertsTable(Table):
    """Who is told when something waits for a person, or a saga ends.

    `${env:X}` and `${file:X}` are filled in here.
    """

    webhook: str = Field(description="where each alert is posted to: a CloudEvent, at least once, in order per saga")
    secret: str = Field(
        "",
        description="`${env:X}` or `${file:X}`: what alerts are signed with, as Standard Webhooks has it; default: "
        "they are not signed",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Who is told."""

    url: str = field(repr=False)
    """May hold a secret: never shown."""
    secret: str = field(repr=False)
    """Empty: nothing is signed."""
    host: str
    """The part of the URL that may be shown."""


def read_alerts(content: object, filling: Filling, findings: Findings) -> Receiver | None:
    """Return who is told; None where it cannot be made out, and the problem is noted."""
    read = validate(AlertsTable, content, ("alerts",), findings)
    if read is None:
        return None
    url = filling.text(read.table.webhook, _WEBHOOK)
    secret = _secret(read.table.secret.strip(), filling, findings)
    host = None if url is None else _host(url, findings)
    if url is None or secret is None or host is None:
        return None
    return Receiver(url=url, secret=secret, host=host)


def _host(url: str, findings: Findings) -> str | None:
    """The host of a URL that can be posted to. No problem shows the URL: it may hold a secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        findings.problem(_WEBHOOK, "cannot be read as a URL")
        return None
    if parts.scheme not in {"http", "https"}:
        findings.problem(_WEBHOOK, "must be a URL that begins with http:// or https://")
        return None
    if not host or any(letter.isspace() or not letter.isprintable() for letter in url):
        findings.problem(_WEBHOOK, "must be a URL with a host, and without spaces")
        return None
    if parts.scheme == "http" and not _is_loopback(host):
        findings.warn(_WEBHOOK, "what is sent there is not encrypted on its way: use https://")
    return host if port is None else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _secret(written: str, filling: Filling, findings: Findings) -> str | None:
    if not written:
        return ""
    if not _REFERENCE.fullmatch(written):
        findings.problem(_SECRET, "must not stand in the config: say ${env:NAME} or ${file:NAME}")
        return None
    filled = filling.text(written, _SECRET)
    if filled is None:
        return None
    secret = filled.strip()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        findings.problem(
            _SECRET,
            f"must be {_PREFIX} and {_SHORTEST} to {_LONGEST} random bytes in base64, as Standard Webhooks has it; "
            f"{_HOW_TO_MAKE_ONE}",
        )
        return None
    return secret
