"""`[temporal]`: where the Temporal server is that drives this realm's sagas."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field

from saga_mcp.config.filled import Filling
from saga_mcp.config.findings import Findings
from saga_mcp.config.table import Table
from saga_mcp.config.validate import validate
from saga_mcp.engine.drivers.temporal.place import DEFAULT_ADDRESS, DEFAULT_NAMESPACE, TemporalPlace

_ADDRESS: Final = re.compile(r"[^\s/:]+(:[0-9]{1,5})|\[[0-9a-fA-F:]+\]:[0-9]{1,5}")
_REFERENCE: Final = re.compile(r"\$\{(env|file):[^}]+\}")
_SECRETS: Final = ("api_key", "client_key")


class TemporalTable(Table):
    """Where Temporal is, for `driver = "temporal"`. Needs `pip install "saga-mcp[temporal]"`.

    `${env:X}` and `${file:X}` are filled in here.
    """

    address: str = Field(DEFAULT_ADDRESS, description="`HOST:PORT` of its frontend")
    namespace: str = Field(DEFAULT_NAMESPACE, description="its namespace")
    task_queue: str = Field("", description="where workers listen; default: `saga-mcp/` and the realm")
    tls: bool | None = Field(
        None, description="whether the connection is encrypted; default: with a key or certificate"
    )
    api_key: str = Field("", description="`${env:X}` or `${file:X}`: the key of Temporal Cloud")
    server_ca: str = Field("", description="`${file:X}`: PEM of the authority that the server's certificate is from")
    client_cert: str = Field("", description="`${file:X}`: PEM of this client's certificate")
    client_key: str = Field("", description="`${env:X}` or `${file:X}`: PEM of its key")


def read_temporal(content: object, filling: Filling, findings: Findings) -> TemporalPlace | None:
    """Return where Temporal is; None where it cannot be made out, and the problem is noted."""
    read = validate(TemporalTable, content, ("temporal",), findings)
    if read is None:
        return None
    table = read.table
    for name in _SECRETS:
        written = str(getattr(table, name)).strip()
        if written and not _REFERENCE.fullmatch(written):
            findings.problem(("temporal", name), "must not stand in the config: say ${env:NAME} or ${file:NAME}")
            return None
    names = ("address", "namespace", "task_queue", "api_key", "server_ca", "client_cert", "client_key")
    filled = {name: filling.text(str(getattr(table, name)), ("temporal", name)) for name in names}
    texts = {name: text.strip() for name, text in filled.items() if text is not None}
    if len(texts) < len(names):
        return None
    if not _ADDRESS.fullmatch(texts["address"]):
        findings.problem(("temporal", "address"), "must be HOST:PORT, without a scheme")
        return None
    if bool(texts["client_cert"]) != bool(texts["client_key"]):
        findings.problem(("temporal", "client_cert"), "goes together with client_key")
        return None
    secured = any(texts[name] for name in ("api_key", "server_ca", "client_cert"))
    if table.tls is False and secured:
        findings.problem(
            ("temporal", "tls"), "is false, and a key or certificate would have no use, or be sent in clear"
        )
        return None
    return TemporalPlace(
        address=texts["address"],
        namespace=texts["namespace"],
        task_queue=texts["task_queue"],
        tls=table.tls is True or secured,
        api_key=texts["api_key"],
        server_ca=texts["server_ca"].encode(),
        client_cert=texts["client_cert"].encode(),
        client_key=texts["client_key"].encode(),
    )
