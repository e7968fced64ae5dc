"""Names: saga ids with their check character, and the keys derived from them (SEMANTICS.md S1.4, S6.3).

Pure: random bytes are handed in.
"""

from __future__ import annotations

import hashlib

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford base32, lower case."""
_LAST = 31
_FIELD = 0b100101
"""x^5 + x^2 + 1: primitive, so that no two of up to 31 places have the same weight."""
_PREFIX = "sg-"
_DIGITS = 26
ENTROPY_BYTES = 16
"""128 bits, as the protocol asks of a handle that is not otherwise protected."""


def saga_id(entropy: bytes) -> str:
    """The id made of 16 random bytes: `sg-`, 26 base32 characters and a check character that is itself base32.

    Raises:
        ValueError: `entropy` has another length.
    """
    if len(entropy) != ENTROPY_BYTES:
        message = f"an id is made of {ENTROPY_BYTES} bytes"
        raise ValueError(message)
    number = int.from_bytes(entropy, "big")
    digits = "".join(_ALPHABET[(number >> shift) & 31] for shift in range(5 * (_DIGITS - 1), -1, -5))
    return f"{_PREFIX}{digits}{_check(digits)}"


def normal_saga_id(text: str) -> str | None:
    """`text` as the log stores it, or None if it cannot be a saga id (mistyped: the check character does not fit)."""
    name = text.strip().lower()
    digits, check = name[len(_PREFIX) : -1], name[-1:]
    if not name.startswith(_PREFIX) or len(digits) != _DIGITS or any(c not in _ALPHABET for c in digits):
        return None
    return name if check == _check(digits) else None


def _check(digits: str) -> str:
    """A sum in the field of 32 elements, each place weighted by another power of its generator.

    So it finds every single wrong character and every swap of two.
    """
    total = 0
    for digit in digits:
        total = (total ^ _ALPHABET.index(digit)) << 1
        if total > _LAST:
            total ^= _FIELD
    return _ALPHABET[total]


def step_key(realm: str, saga: str, number: int, nonce: str) -> str:
    """The idempotency key of a step: the same for all its attempts, never the agent's text (S6.3).

    26 characters of base32.

    Args:
        realm: the saga's realm.
        saga: the saga's id.
        number: the step's number.
        nonce: of its plan; an older version made keys without one.
    """
    named = f"{realm}\0{saga}\0{number}" + (f"\0{nonce}" if nonce else "")
    digest = hashlib.sha256(named.encode()).digest()[:ENTROPY_BYTES]
    value = int.from_bytes(digest, "big")
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(5 * (_DIGITS - 1), -1, -5))


def key_bytes(key: str) -> bytes:
    """The 128 bits that a step's key is made of."""
    value = 0
    for character in key:
        value = (value << 5) | _ALPHABET.index(character)
    return value.to_bytes(ENTROPY_BYTES, "big")


def undo_key(key: str, part: str, generation: int) -> str:
    """The idempotency key of an undo part: kept over retries, the next generation after a late effect (S6.3)."""
    return f"{key}.u{part}.g{generation}"
