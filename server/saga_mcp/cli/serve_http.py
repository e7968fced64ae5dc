"""`saga-mcp serve --http`: many callers over streamable HTTP. Imported only where that is asked for."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from functools import partial

from saga_mcp.app_http import open_http
from saga_mcp.cli.injecting import InjectingCatalogue, Injection, notice
from saga_mcp.config import LoadedConfig
from saga_mcp.edge.http.door import has_a_name, is_loopback, is_reached_from_outside
from saga_mcp.tools.port import Catalogue

Around = Callable[[Catalogue], Catalogue]

DEFAULT = "127.0.0.1:8000"
_PORT = 8000
_MOST = 65535
_ADDRESS = re.compile(
    r"(?:(?P<host>[A-Za-z_][\w.-]*|\d+(?:\.\d+){3})|\[(?P<v6>[0-9A-Fa-f:.]+)\])?(?::(?P<port>\d{1,5}))?|(?P<alone>\d{1,5})"
)


class WrongAddress(Exception):
    """What stands after `--http` is no address, or one that may not be served."""


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `HOST` or `PORT`; an IPv6 address stands in brackets.

    Raises:
        WrongAddress: it is none of these.
    """
    found = _ADDRESS.fullmatch(text)
    port = int((found and (found["port"] or found["alone"])) or _PORT)
    if found is None or port > _MOST:
        raise WrongAddress(f'"{text}" is no address: say HOST:PORT, as in {DEFAULT}, or [::1]:8000')
    return found["host"] or found["v6"] or "127.0.0.1", port


def require_safe(loaded: LoadedConfig, host: str) -> None:
    """Refuse to serve whoever comes by, or nobody.

    Raises:
        WrongAddress: others reach the address, and the config does not tell them apart; or no name is let in.
    """
    shared = loaded.shared
    if is_reached_from_outside(shared.http, host) and not shared.people.told_apart:
        by = f"other machines reach {host}" if not is_loopback(host) else "[http] says that others reach it by a proxy"
        raise WrongAddress(
            f"{by}, and {loaded.path.name} does not say who may call: anybody could. "
            "Make a token with `saga-mcp token NAME` and put its line into [auth.tokens], or name an authorisation "
            "server in [auth.oauth]. Or serve this machine alone, with --http 127.0.0.1:8000. Nothing was started"
        )
    if not has_a_name(shared.http, host):
        raise WrongAddress(
            f"clients reach {host} by the name of this machine, and {loaded.path.name} does not say which is meant: "
            'each request would be refused. Set public_url = "https://NAME/mcp" under [http], or allowed_hosts there. '
            "Nothing was started"
        )


async def serve(
    loaded: LoadedConfig, injections: tuple[Injection, ...], host: str, port: int, around: Around | None = None
) -> None:
    """Serve until a signal arrives.

    Args:
        loaded: the config.
        injections: which calls are to fail.
        host: where to listen.
        port: likewise; 0: any that is free.
        around: puts other tools in place of the config's, as tests do.

    Raises:
        OSError: the address cannot be had.
        SagaError, LifespanFailed: as `app.open_app`.
    """
    if loaded.settings.ask_in_client:
        sys.stderr.write(f"{loaded.path.name}: warn saga.ask_in_client has no effect over HTTP: no client is asked\n")
    around = around or partial(InjectingCatalogue.around, injections=injections)
    async with open_http(loaded, host, port, around=around, notice=notice(injections)) as opened:
        sys.stdout.write(f"saga-mcp serves MCP at {opened.url}\n")
        sys.stdout.flush()
        gc.freeze()
        gc.enable()
        await opened.serve()
