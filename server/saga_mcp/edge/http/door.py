"""Which requests are for this server at all: no page of a browser reaches it behind its back, by whatever name."""

from __future__ import annotations

import ipaddress
import re
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from saga_mcp.edge.http.settings import HttpSettings

_HTTP_PORT, _HTTPS_PORT = 80, 443
_ANY_PORT: Final = ":*"
_NO_NAMES: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared, not listened at
"""Addresses to listen at by which no client calls."""
_SAID: Final = {
    HTTPStatus.MISDIRECTED_REQUEST: "The Host header names no server that this one is known as. If clients are meant "
    "to reach it so, add that name to allowed_hosts under [http] in its config, or set public_url there.\n",
    HTTPStatus.FORBIDDEN: "Pages of that origin may not call this server. If one is meant to, add the origin to "
    "allowed_origins under [http] in its config.\n",
}


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a host: its name or address, an IPv6 one without brackets."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_reached_from_outside(settings: HttpSettings, host: str) -> bool:
    """Whether others than programs of this machine call a server that listens at `host`, directly or by a proxy."""
    return not all(map(is_loopback, (host, *_names(settings))))


def has_a_name(settings: HttpSettings, host: str) -> bool:
    """Whether any `Host` header would be let in."""
    return host not in _NO_NAMES or bool(_names(settings))


def _names(settings: HttpSettings) -> list[str]:
    """By which the config says that clients reach the server; IPv6 addresses without brackets."""
    urls = [*([settings.public_url] if settings.public_url else []), *(f"//{each}" for each in settings.allowed_hosts)]
    return [urlsplit(url.removesuffix(_ANY_PORT)).hostname or "" for url in urls]


def security_of(settings: HttpSettings, host: str, port: int) -> TransportSecuritySettings:
    """Which `Host` and `Origin` headers are let in, in lower case."""
    hosts = [each.lower() for each in settings.allowed_hosts]
    origins = [each.lower() for each in settings.allowed_origins]
    if is_loopback(host):
        for name in ("127.0.0.1", "localhost", "[::1]", _in_a_header(host)):
            hosts += [f"{name}:{port}", *([name] if port == _HTTP_PORT else [])]
            origins += [f"http://{name}:{port}", *([f"http://{name}"] if port == _HTTP_PORT else [])]
    elif host not in _NO_NAMES:
        hosts.append(f"{_in_a_header(host)}:{port}")
    if settings.public_url:
        public = urlsplit(settings.public_url.lower())
        usual = f":{_HTTPS_PORT if public.scheme == 'https' else _HTTP_PORT}"
        hosts += [public.netloc, *([] if public.port else [f"{public.netloc}{usual}"])]
        origins.append(f"{public.scheme}://{public.netloc}")
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _in_a_header(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()


def pattern_of(origins: tuple[str, ...]) -> str:
    """A regular expression for `Origin` headers that are let in; `ORIGIN:*` stands for any port."""
    return "|".join(
        re.escape(origin.lower().removesuffix(_ANY_PORT)) + (r":\d+" if origin.endswith(_ANY_PORT) else "")
        for origin in origins
    )


class Doorstep:
    """Lets in requests for this server only, before anything else of them is looked at."""

    def __init__(self, app: ASGIApp, security: TransportSecuritySettings) -> None:
        self._app = app
        self._security = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        # Names of hosts have no case (RFC 9110, 4.2.3); the SDK compares them as they are.
        lowered = [(name, value.lower() if name in {b"host", b"origin"} else value) for name, value in scope["headers"]]
        refused = await self._security.validate_request(Request({**scope, "headers": lowered}))
        if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
            # A proxy may check the one and we the other (RFC 9110, 11.6.2: one credential).
            await PlainTextResponse("Send one Authorization header.\n", HTTPStatus.BAD_REQUEST)(scope, receive, send)
        elif refused is None:
            await self._app(scope, receive, send)
        else:
            said = _SAID.get(HTTPStatus(refused.status_code), "This request is not let in.\n")
            await PlainTextResponse(said, refused.status_code)(scope, receive, send)
