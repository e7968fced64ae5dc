"""Static tokens of a small team: the config has their hashes, and who bears one is its caller.

A token is 256 random bits, so one round of SHA-256 keeps it: there is nothing to guess that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from mcp.server.auth.provider import AccessToken

PREFIX: Final = "sgt_"
"""So that scanners for lost secrets know one, and nobody takes it for a token of an authorisation server."""
_BYTES = 32


def new_token() -> str:
    """A token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(token: str) -> str:
    """What the config keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class StaticTokens:
    """Knows the bearers of the config's tokens; the SDK's `TokenVerifier`.

    Args:
        tokens: by caller: SHA-256 of each of their tokens, in hex.
        scopes: what every bearer may do.
    """

    def __init__(self, tokens: Mapping[str, tuple[str, ...]], scopes: Sequence[str]) -> None:
        self._scopes = list(scopes)
        self._callers = [(bytes.fromhex(digest), caller) for caller, digests in tokens.items() for digest in digests]

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who bears it; None: nobody that is known."""
        given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        bearer = ""
        for digest, caller in self._callers:  # all of them: how long it takes tells nothing
            bearer = caller if hmac.compare_digest(digest, given) else bearer
        return AccessToken(token="", client_id=bearer, subject=bearer, scopes=self._scopes) if bearer else None
