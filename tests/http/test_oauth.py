"""Bearer tokens of an authorisation server, whose keys are fetched over real HTTP; and what is no such token."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Generator, Mapping
from dataclasses import replace

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.http.issuer import AUDIENCE, Issuer, issuing

from saga_mcp.edge.http.keys import KeysUnavailable, SigningKeys, metadata_urls
from saga_mcp.edge.http.oauth import OAuthTokens
from saga_mcp.edge.http.settings import OAuthSettings


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with issuing() as found:
        yield found


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def settings_of(issuer: Issuer) -> OAuthSettings:
    return OAuthSettings(issuer=issuer.url, audience=AUDIENCE)


def verifier(issuer: Issuer, clock: Clock, settings: OAuthSettings | None = None) -> OAuthTokens:
    settings = settings or settings_of(issuer)
    keys = SigningKeys(settings.issuer, settings.jwks_url, settings.algorithms, clock)
    return OAuthTokens(settings, keys, {"ci"})


async def caller_of(tokens: OAuthTokens, token: str) -> str | None:
    found = await tokens.verify_token(token)
    return None if found is None else found.subject


async def test_whoever_bears_a_token_for_this_server_is_its_subject(issuer: Issuer, clock: Clock) -> None:
    issuer.add("curve", "EC")
    tokens = verifier(issuer, clock)
    assert await caller_of(tokens, issuer.token("alice")) == "alice"
    assert await caller_of(tokens, issuer.token("bob", key_id="curve", aud=["other", AUDIENCE])) == "bob"
    assert await caller_of(tokens, issuer.token("carol", headers={"typ": "at+jwt"})) == "carol"
    found = await tokens.verify_token(issuer.token(client_id="cli", scope="saga:use saga:admin"))
    assert found is not None
    assert (found.client_id, found.scopes) == ("cli", ["saga:use", "saga:admin"])
    assert found.token == ""
    assert issuer.asked.count("/keys") == 1


async def test_another_claim_can_name_the_caller(issuer: Issuer, clock: Clock) -> None:
    tokens = verifier(issuer, clock, replace(settings_of(issuer), caller_claim="email"))
    assert await caller_of(tokens, issuer.token("4711", email="ada@example.com")) == "ada@example.com"
    assert await caller_of(tokens, issuer.token("4711")) is None


WRONG: dict[str, dict[str, object]] = {
    "expired": {"exp": int(time.time()) - 3600},
    "never-ending": {"exp": None},
    "not-yet": {"nbf": int(time.time()) + 3600},
    "of-the-future": {"iat": int(time.time()) + 3600},
    "for-another": {"aud": "https://other.example.com/mcp"},
    "for-a-prefix": {"aud": AUDIENCE + "/"},
    "for-nobody": {"aud": None},
    "by-another": {"iss": "https://evil.example.com"},
    "by-nobody": {"iss": None},
    "nobody": {"sub": None},
    "no-name": {"sub": ""},
    "a-team": {"sub": "team:ops"},
    "a-static-caller": {"sub": "ci"},
    "two-lines": {"sub": "alice\nbob"},
    "a-long-name": {"sub": "a" * 201},
    "endless": {"exp": float("inf")},
    "odd-times": {"exp": "soon"},
}


@pytest.mark.parametrize("claims", WRONG.values(), ids=WRONG)
async def test_a_token_with_wrong_claims_is_not_accepted(
    issuer: Issuer, clock: Clock, claims: dict[str, object]
) -> None:
    token = _signed_by_hand(issuer, claims) if not isinstance(claims.get("sub", ""), str | None) else None
    try:
        token = token or issuer.token(**{"subject": "alice", **claims})  # type: ignore[arg-type]
    except (TypeError, ValueError):  # what a careful library does not sign
        token = _signed_by_hand(issuer, claims)
    assert await caller_of(verifier(issuer, clock), token) is None


def _signed_by_hand(issuer: Issuer, claims: dict[str, object]) -> str:
    now = int(time.time())
    said = {"iss": issuer.url, "aud": AUDIENCE, "sub": "alice", "exp": now + 300, **claims}
    return jwt.api_jws.encode(json.dumps(said).encode(), issuer.private["one"], "RS256", {"kid": "one"})


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def test_a_token_that_is_signed_wrongly_is_not_accepted(issuer: Issuer, clock: Clock) -> None:
    now = int(time.time())
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "alice", "exp": now + 300}
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = issuer.private["one"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    right = issuer.token()
    header, payload, signature = right.split(".")
    forged = {
        "alg none": f"{_encoded({'alg': 'none', 'kid': 'one'})}.{_encoded(claims)}.",
        "alg None": f"{_encoded({'alg': 'None', 'kid': 'one'})}.{_encoded(claims)}.{signature}",
        "no alg": f"{_encoded({'kid': 'one'})}.{_encoded(claims)}.{signature}",
        "shared secret": _hs256(claims, public),
        "by a stranger": jwt.encode(claims, stranger, "RS256", {"kid": "one"}),
        "with its own key": jwt.encode(claims, stranger, "RS256", {"kid": "one", "jku": "http://127.0.0.1:9/"}),
        "another algorithm of the key": jwt.encode(claims, issuer.private["one"], "PS256", {"kid": "one"}),
        "changed": f"{header}.{_encoded({**claims, 'sub': 'bob'})}.{signature}",
        "cut": f"{header}.{payload}.",
        "an ID token's type": issuer.token(headers={"typ": "secevent+jwt"}),
        "critical": issuer.token(headers={"crit": ["b64"], "b64": True}),
        "a number for a key": f"{_encoded({'alg': 'RS256', 'kid': 7})}.{payload}.{signature}",
    }
    tokens = verifier(issuer, clock)
    for name, token in forged.items():
        assert await caller_of(tokens, token) is None, name
    assert await caller_of(tokens, right) == "alice"


def _hs256(claims: Mapping[str, object], key: bytes) -> str:
    import hashlib  # noqa: PLC0415 - by hand, because no library does this any more
    import hmac  # noqa: PLC0415 - see above

    signed = f"{_encoded({'alg': 'HS256', 'kid': 'one', 'typ': 'JWT'})}.{_encoded(claims)}"
    mac = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


async def test_what_is_no_token_is_not_accepted(issuer: Issuer, clock: Clock) -> None:
    deep = base64.urlsafe_b64encode(b'{"a":' * 2000 + b"1" + b"}" * 2000).decode().rstrip("=")
    tokens = verifier(issuer, clock)
    for token in ("", ".", "..", "...", "a.b.c", "\ud800", "é.é.é", "x" * 20_000, f"{deep}.{deep}.aa", f"{'.' * 9000}"):
        assert await caller_of(tokens, token) is None, token[:40]
    assert issuer.asked == []


async def test_a_new_key_is_found_and_an_old_one_is_no_longer_good(issuer: Issuer, clock: Clock) -> None:
    tokens = verifier(issuer, clock)
    old = issuer.token()
    assert await caller_of(tokens, old) == "alice"
    issuer.rotate("two")
    clock.now += 11
    assert await caller_of(tokens, issuer.token(key_id="two")) == "alice"
    assert await caller_of(tokens, old) is None


async def test_unknown_keys_do_not_make_it_ask_all_day(issuer: Issuer, clock: Clock) -> None:
    tokens = verifier(issuer, clock)
    stranger = jwt.encode({"sub": "a"}, issuer.private["one"], "RS256", {"kid": "nobody"})
    for _ in range(50):
        assert await caller_of(tokens, stranger) is None
    assert issuer.asked.count("/keys") == 1
    clock.now += 11
    assert await caller_of(tokens, stranger) is None
    assert issuer.asked.count("/keys") == 2


async def test_known_keys_outlast_an_outage_and_not_for_ever(issuer: Issuer, clock: Clock) -> None:
    tokens = verifier(issuer, clock)
    assert await caller_of(tokens, issuer.token()) == "alice"
    issuer.broken = True
    clock.now += 3600
    assert await caller_of(tokens, issuer.token()) == "alice"
    clock.now += 86_400
    with pytest.raises(KeysUnavailable):
        await caller_of(tokens, issuer.token())
    issuer.broken = False
    clock.now += 11
    assert await caller_of(tokens, issuer.token()) == "alice"


async def test_an_outage_holds_up_nobody_whose_key_is_known(issuer: Issuer, clock: Clock) -> None:
    """It takes connections, and says nothing."""
    tokens = verifier(issuer, clock)
    assert await caller_of(tokens, issuer.token()) == "alice"
    issuer.answers.clear()
    clock.now += 3600
    found: list[str | None] = []

    async def ask() -> None:
        found.append(await caller_of(tokens, issuer.token()))

    asked = len(issuer.asked)
    with anyio.fail_after(4.5):  # less than one look may take, and there is one for all
        async with anyio.create_task_group() as callers:
            for _ in range(4):
                callers.start_soon(ask)
    assert found == ["alice"] * 4
    assert len(issuer.asked) == asked


async def test_a_key_of_no_stated_algorithm_signs_with_each_that_is_accepted(issuer: Issuer, clock: Clock) -> None:
    """`alg` is optional in a key (RFC 7517, 4.4), and widely left out."""
    tokens = verifier(issuer, clock, replace(settings_of(issuer), algorithms=("PS256", "RS512", "ES256")))
    issuer.add("curve", "EC")
    for algorithm in ("PS256", "RS512"):
        assert await caller_of(tokens, issuer.token(algorithm=algorithm)) == "alice"
    assert await caller_of(tokens, issuer.token(key_id="curve")) == "alice"
    assert await caller_of(tokens, issuer.token()) is None


async def test_a_key_of_a_stated_algorithm_signs_with_no_other(issuer: Issuer, clock: Clock) -> None:
    issuer.published[0]["alg"] = "RS256"
    tokens = verifier(issuer, clock, replace(settings_of(issuer), algorithms=("RS256", "PS256")))
    assert await caller_of(tokens, issuer.token()) == "alice"
    assert await caller_of(tokens, issuer.token(algorithm="PS256")) is None


async def test_metadata_of_another_issuer_is_not_believed(issuer: Issuer, clock: Clock) -> None:
    issuer.named = "https://evil.example.com"
    with pytest.raises(KeysUnavailable):
        await caller_of(verifier(issuer, clock), issuer.token())
    assert "/keys" not in issuer.asked


async def test_where_the_keys_are_can_be_said(issuer: Issuer, clock: Clock) -> None:
    tokens = verifier(issuer, clock, replace(settings_of(issuer), jwks_url=f"{issuer.url}/keys"))
    assert await caller_of(tokens, issuer.token()) == "alice"
    assert issuer.asked == ["/keys"]


async def test_keys_that_sign_nothing_are_left_out(issuer: Issuer, clock: Clock) -> None:
    issuer.published[0]["use"] = "enc"
    issuer.published.append({"kty": "oct", "kid": "shared", "k": "c2VjcmV0"})
    issuer.published.append({"kty": "new"})
    issuer.add("two")
    tokens = verifier(issuer, clock)
    assert await caller_of(tokens, issuer.token()) is None
    assert await caller_of(tokens, issuer.token(key_id="two")) == "alice"


def test_metadata_is_looked_for_where_clients_look() -> None:
    assert metadata_urls("https://login.example.com/tenant/") == (
        "https://login.example.com/.well-known/oauth-authorization-server/tenant",
        "https://login.example.com/.well-known/openid-configuration/tenant",
        "https://login.example.com/tenant/.well-known/openid-configuration",
    )
