"""Encryption of the values in a saga log, where the config names a key (SEMANTICS.md S11.4).

AES-256-GCM from `cryptography`, each value with a nonce of its own and bound to its saga and event, so that one cannot
be put in another's place. The name of a key is made from the key: a wrong one is not tried, it is missing. Of several
keys the first one writes and all read, so that a key can be changed while old values are still there.

Lies beside the port: it is the same for every database. Nothing is imported where there is no key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from saga_mcp.domain.errors import LogUnavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class LogKeyMissing(LogUnavailable):
    """The log holds values of a key that this process does not have."""


class NoKey(ValueError):
    """A text that is no key. Says nothing of what it was."""


class Sealed(NamedTuple):
    """Encrypted values, and by which key."""

    key_id: str
    box: bytes


def read_key(text: str) -> bytes:
    """Return the key that `text` stands for: 32 bytes in base64, as `openssl rand -base64 32` prints them.

    Raises:
        NoKey: it is none.
    """
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise NoKey(f"is not {KEY_BYTES} bytes in base64; `openssl rand -base64 {KEY_BYTES}` makes one")
    return key


def key_id(key: bytes) -> str:
    """The name of a key in the log and in messages; tells nothing of the key."""
    return hashlib.sha256(b"saga-mcp key\n" + key).hexdigest()[:12]


class Keyring:
    """The keys of one process; none: values are stored as they are."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = {key_id(key): key for key in keys}
        self._ciphers: dict[str, AESGCM] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the keys; the first one writes."""
        return tuple(self._keys)

    def require(self, used: Iterable[str]) -> None:
        """Check that all keys are here which the log needs.

        Raises:
            LogKeyMissing: one is not.
        """
        for name in used:
            if name not in self._keys:
                has = f"has {', '.join(self._keys)}" if self._keys else "is not set"
                raise LogKeyMissing(
                    f"the values in the saga log are encrypted with key {name}, and [saga] encryption_keys {has}; "
                    "nothing was stored and nothing was sent. Put that key there, and restart saga-mcp."
                )

    def seal(self, saga_id: str, seq: int, values: bytes) -> Sealed:
        """Encrypt the values of an event with the first key."""
        name = next(iter(self._keys))
        nonce = os.urandom(_NONCE_BYTES)
        return Sealed(name, nonce + self._cipher(name).encrypt(nonce, values, _place(saga_id, seq)))

    def open(self, saga_id: str, seq: int, sealed: Sealed) -> bytes:
        """Decrypt the values of an event.

        Raises:
            LogKeyMissing: their key is not here.
            cryptography.exceptions.InvalidTag: they were changed, or belong to another event.
        """
        self.require([sealed.key_id])
        nonce, box = sealed.box[:_NONCE_BYTES], sealed.box[_NONCE_BYTES:]
        return self._cipher(sealed.key_id).decrypt(nonce, box, _place(saga_id, seq))

    def _cipher(self, name: str) -> AESGCM:
        cipher = self._ciphers.get(name)
        if cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - only where there is a key

            cipher = self._ciphers[name] = AESGCM(self._keys[name])
        return cipher


def _place(saga_id: str, seq: int) -> bytes:
    return f"{saga_id}\n{seq}".encode("utf-8", "surrogatepass")
