"""`saga.encryption_keys`: from what the config refers to, to keys. What they are is never shown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from saga_mcp.config.filled import Filling
from saga_mcp.config.findings import Findings
from saga_mcp.log.sealing import Keyring, NoKey, read_key

_REFERENCE = re.compile(r"\$\{(env|file):[^}]+\}")


def read_keys(written: Sequence[str], filling: Filling, findings: Findings) -> Keyring:
    """Return the keys; where one cannot be used, the problem is noted."""
    keys: list[bytes] = []
    for place, each in enumerate(written):
        path = ("saga", "encryption_keys", place)
        if not _REFERENCE.fullmatch(each):
            findings.problem(path, "must be ${env:NAME} or ${file:PATH}: a key does not stand in the config")
            continue
        text = filling.text(each, path)
        if text is None:
            continue
        try:
            keys.append(read_key(text))
        except NoKey as error:
            findings.problem(path, str(error))
    return Keyring(keys)
