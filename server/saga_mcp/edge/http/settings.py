"""How a server over HTTP is reached, and by whom. Plain values, which the config fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from saga_mcp.domain.ownership import CommitBy
from saga_mcp.edge.owned import CallerLimits

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
DRAIN_S: Final = 8.0
"""Within the ten seconds that container engines leave between SIGTERM and SIGKILL."""
LEEWAY_S: Final = 30.0
ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
"""Signatures of an authorisation server that are accepted by default; a shared secret (HS256) never is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How the server is reached."""

    public_url: str = ""
    """Of the MCP endpoint, as clients have it; empty: the address that it listens at."""
    allowed_hosts: tuple[str, ...] = ()
    """Further `Host` headers, with `:*` for any port."""
    allowed_origins: tuple[str, ...] = ()
    """`Origin` headers of browsers, likewise."""
    max_body_bytes: int = MAX_BODY_BYTES
    json_replies: bool = True
    """Else a reply may become a stream of events, with progress in it."""
    drain_s: float = DRAIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """Which tokens of an authorisation server are accepted."""

    issuer: str
    audience: str
    """What a token has to be issued for: this server."""
    jwks_url: str = ""
    """Empty: by discovery at the issuer."""
    caller_claim: str = "sub"
    required_scopes: tuple[str, ...] = ()
    operator_scope: str = ""
    """Whoever has it is an operator; empty: nobody is by a scope."""
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway_s: float = LEEWAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Callers that may work on one saga together."""

    members: frozenset[str]
    commit: CommitBy = CommitBy.OPENER


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Who may come in, and as whom."""

    tokens: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By caller: SHA-256, in hex, of each token that is theirs."""
    oauth: OAuthSettings | None = None
    operators: frozenset[str] = frozenset()
    teams: Mapping[str, Team] = field(default_factory=dict[str, Team])
    limits: CallerLimits = field(default_factory=CallerLimits)

    @property
    def told_apart(self) -> bool:
        """Whether callers have to say who they are."""
        return bool(self.tokens) or self.oauth is not None
