"""Tokens of an OAuth 2.1 authorisation server: who bears one, if it was issued for this server.

Signature, issuer, audience and times are checked by PyJWT; what it is told to accept comes from the config, never from
the token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import jwt
import structlog
from mcp.server.auth.provider import AccessToken

from saga_mcp.domain.ownership import is_name
from saga_mcp.edge.http.keys import KeysUnavailable, SigningKeys
from saga_mcp.edge.http.settings import OAuthSettings

_LONGEST: Final = 16 * 1024
"""Bytes of a token; beyond it nothing of it is looked at."""
_TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
"""Of a token's header; others are no access tokens (RFC 9068)."""

_log = structlog.get_logger(__name__)


class OAuthTokens:
    """Knows the bearers of an authorisation server's tokens; the SDK's `TokenVerifier`.

    Args:
        settings: what is accepted.
        keys: the server's keys.
        reserved: names of callers that have other tokens: nobody becomes one of them by a claim.
    """

    def __init__(self, settings: OAuthSettings, keys: SigningKeys, reserved: Collection[str]) -> None:
        self._settings = settings
        self._keys = keys
        self._reserved = frozenset(reserved)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who bears it; None: it is not accepted.

        Raises:
            KeysUnavailable: it cannot be said now.
        """
        try:
            claims = await self._claims(token)
        except KeysUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a stranger's token does to a parser, it is not accepted
            _log.info("token_refused", reason=type(error).__name__)
            return None
        caller = claims.get(self._settings.caller_claim)
        if not isinstance(caller, str) or not self._is_name(caller):
            _log.warning("token_refused", reason="it names no caller", claim=self._settings.caller_claim)
            return None
        return AccessToken(
            token="",
            client_id=_client(claims) or caller,
            subject=caller,
            scopes=scopes_of(claims),
            expires_at=int(int(claims["exp"]) + self._settings.leeway_s),
            claims={"iss": self._settings.issuer},
        )

    def _is_name(self, caller: str) -> bool:
        return is_name(caller) and caller not in self._reserved

    async def _claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > _LONGEST:
            raise jwt.DecodeError
        settings = self._settings
        header = cast("Mapping[str, object]", jwt.get_unverified_header(token))
        algorithm, key_id, kind = header.get("alg"), header.get("kid", ""), header.get("typ", "")
        if not isinstance(algorithm, str) or algorithm not in settings.algorithms:
            raise jwt.InvalidAlgorithmError
        if not isinstance(key_id, str) or not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise jwt.DecodeError
        key = await self._keys.named(key_id, algorithm)
        if key is None:
            raise jwt.InvalidKeyError
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=settings.audience,
            issuer=settings.issuer,
            leeway=settings.leeway_s,
            options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
        )


def scopes_of(claims: Mapping[str, Any]) -> list[str]:
    """What a token lets its bearer do: `scope` (RFC 9068), or `scp` as some servers have it."""
    found: object = claims.get("scope", claims.get("scp", ""))
    if isinstance(found, str):
        return found.split()
    return [each for each in cast("list[object]", found) if isinstance(each, str)] if isinstance(found, list) else []


def _client(claims: Mapping[str, Any]) -> str:
    found: object = claims.get("client_id", claims.get("azp", ""))
    return found if isinstance(found, str) else ""
