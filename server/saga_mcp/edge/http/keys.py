"""The public keys of an authorisation server: found by discovery, kept, and fetched again when they change.

A token that names an unknown key makes us look again, at most every so often, or anybody could make us ask all day. If
the server cannot be asked, the keys that are known go on being used: its outage is not the end of every session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt
import structlog
from starlette.authentication import AuthenticationError

_WITHIN_S: Final = 5.0
_FRESH_S: Final = 600.0
"""How long keys are used without a look whether they have changed."""
_AGAIN_S: Final = 10.0
"""Between two looks for a key that is not known, or after one that failed."""
_STALE_S: Final = 86_400.0
"""How long keys are used while the server cannot be asked."""
_HELD_UP_S: Final = 1.0
"""How long a token whose key is known waits for a look whether it still is one."""
_LONGEST: Final = 512 * 1024
_ANY_OF_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
"""What a key of RSA that names no algorithm may sign with (RFC 7517, 4.4: `alg` is optional)."""

_log = structlog.get_logger(__name__)


class KeysUnavailable(AuthenticationError):
    """The authorisation server cannot be asked, so nothing can be said of a token."""


@dataclass(slots=True)
class SigningKeys:
    """The keys of one authorisation server.

    Args:
        issuer: its identifier, as the config has it.
        jwks_url: where its keys are; empty: where its metadata says.
        algorithms: which signatures are accepted; keys for others are left out.
        clock: monotonic, in seconds.
    """

    issuer: str
    jwks_url: str
    algorithms: tuple[str, ...]
    clock: Callable[[], float] = time.monotonic
    _keys: Mapping[str, Mapping[str, jwt.PyJWK]] = field(default_factory=dict[str, Mapping[str, jwt.PyJWK]])
    """By name, then by algorithm."""
    _fetched: float = -float("inf")
    _tried: float = -float("inf")
    _look: asyncio.Task[None] | None = None

    async def named(self, key_id: str, algorithm: str) -> jwt.PyJWK | None:
        """The key that a token names, for the algorithm that it names; None: the server has none such.

        Raises:
            KeysUnavailable: the server cannot be asked, and no key is known.
        """
        age_s = self.clock() - self._fetched
        known = (key_id in self._keys or not key_id) and age_s < _STALE_S
        if not known or age_s >= _FRESH_S:
            # An authorisation server that hangs holds up nobody for long whose key is known.
            with anyio.move_on_after(_HELD_UP_S if known else None):
                await self._looked()
        if self.clock() - self._fetched > _STALE_S:
            raise KeysUnavailable
        found = self._keys.get(key_id) if key_id or "" in self._keys else self._only()
        return None if found is None else found.get(algorithm)

    def _only(self) -> Mapping[str, jwt.PyJWK] | None:
        """The key of a server that has just one, and names it in no token."""
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _looked(self) -> None:
        """Wait for a look that is under way, or for a new one unless there was one just now."""
        if self._look is None or self._look.done():
            if self.clock() - self._tried < _AGAIN_S:
                return
            self._look = asyncio.create_task(self._fetch())
        await asyncio.shield(self._look)

    async def _fetch(self) -> None:
        try:
            async with httpx2.AsyncClient(timeout=_WITHIN_S, follow_redirects=False, trust_env=True) as client:
                with anyio.fail_after(2 * _WITHIN_S):
                    url = self.jwks_url or await self._discovered(client)
                    found = await _json_at(client, url)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next token asks again
            _log.warning("signing_keys_not_fetched", error_type=type(error).__name__)
            return
        finally:
            self._tried = self.clock()
        keys = _usable(found, self.algorithms)
        if not keys:
            _log.warning("signing_keys_not_fetched", error_type="none is usable")
            return
        if keys.keys() != self._keys.keys():
            _log.info("signing_keys", number=len(keys))
        self._keys, self._fetched = keys, self.clock()

    async def _discovered(self, client: httpx2.AsyncClient) -> str:
        for url in metadata_urls(self.issuer):
            try:
                found = await _json_at(client, url)
            except (httpx2.HTTPStatusError, ValueError):
                continue
            jwks_url = found.get("jwks_uri")
            # RFC 8414, 3.3: metadata that names another issuer is not this one's.
            if found.get("issuer") == self.issuer and isinstance(jwks_url, str) and is_safe(jwks_url):
                return jwks_url
        message = "no metadata of this issuer"
        raise ValueError(message)


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where an issuer describes itself, in the order in which clients look (RFC 8414, OpenID Connect Discovery)."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    appended = f"{base}{path}/.well-known/openid-configuration"
    inserted = f"{base}/.well-known/oauth-authorization-server{path}"
    return (inserted, f"{base}/.well-known/openid-configuration{path}", appended) if path else (inserted, appended)


def is_safe(url: str) -> bool:
    """Whether what is read there can be trusted to come from there: encrypted, or from this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or (parts.scheme == "http" and (host in {"localhost", "::1", "127.0.0.1"}))


async def _json_at(client: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    content = bytearray()
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        response.raise_for_status()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > _LONGEST:
                message = "longer than any such document"
                raise ValueError(message)
    found: object = httpx2.Response(200, content=bytes(content)).json()
    if not isinstance(found, dict):
        message = "no object"
        raise TypeError(message)
    return cast("Mapping[str, Any]", found)


def _usable(found: Mapping[str, Any], algorithms: tuple[str, ...]) -> dict[str, dict[str, jwt.PyJWK]]:
    """The keys that signatures can be checked with; what else a server publishes is not ours to judge."""
    keys: dict[str, dict[str, jwt.PyJWK]] = {}
    listed: object = found.get("keys")
    for each in cast("list[object]", listed) if isinstance(listed, list) else ():
        if not isinstance(each, dict):
            continue
        described = cast("dict[str, Any]", each)
        if described.get("use", "sig") != "sig" or described.get("kty") == "oct":
            continue
        open_to_any = described.get("kty") == "RSA" and "alg" not in described
        for algorithm in _ANY_OF_RSA.intersection(algorithms) if open_to_any else (None,):
            try:
                key = jwt.PyJWK.from_dict(described, algorithm)
            except jwt.PyJWTError:
                continue
            if key.algorithm_name in algorithms:
                keys.setdefault(key.key_id or "", {})[key.algorithm_name] = key
    return keys
