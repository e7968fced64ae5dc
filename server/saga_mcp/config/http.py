"""`[http]`, `[auth]`, `[teams]` and `[limits]`: how a shared server is reached, by whom, and how much each may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import KeyPath
from saga_mcp.config.table import Clash, Table
from saga_mcp.config.validate import validate
from saga_mcp.domain.ownership import NAME_RULE, CommitBy, is_name
from saga_mcp.edge.http.settings import (
    ALGORITHMS,
    DRAIN_S,
    LEEWAY_S,
    MAX_BODY_BYTES,
    HttpSettings,
    OAuthSettings,
    People,
    Team,
)
from saga_mcp.edge.owned import CallerLimits

_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_Number = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class HttpTable(Table):
    """How `saga-mcp serve --http` is reached."""

    public_url: str = Field(
        "",
        description="of the MCP endpoint as clients have it, `https://saga.example.com/mcp`; its host is let in, and "
        "tokens of an authorisation server are issued for it; default: the address that is listened at",
    )
    allowed_hosts: list[str] = Field(
        [], description="further `Host` headers that are let in, as a proxy sends them; `NAME:*` for any port"
    )
    allowed_origins: list[str] = Field(
        [], description="`Origin` headers of pages in browsers that may call this server; default: of its own host"
    )
    max_body_bytes: int = Field(MAX_BODY_BYTES, ge=1024, description="a longer request is refused (413)")
    replies: Literal["json", "sse"] = Field(
        "json", description='`"sse"`: a reply may become a stream of events, which carries progress'
    )
    drain_s: _Seconds = Field(
        DRAIN_S, description="how long a server that is told to stop waits for calls; what runs on falls in doubt"
    )


def _texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


class OAuthTable(Table):
    """The OAuth 2.1 authorisation server whose bearer tokens are accepted."""

    issuer: str = Field(description="its identifier, exactly as its tokens and its metadata have it")
    audience: str = Field("", description="what a token has to be issued for (`aud`); default: `http.public_url`")
    jwks_url: str = Field("", description="where its keys are; default: where its metadata says")
    caller_claim: str = Field(
        "sub", min_length=1, description="the claim that names the caller; one that its bearer cannot change"
    )
    required_scopes: list[str] = Field([], description="scopes that a token needs to be let in at all")
    operator_scope: str = Field("", description="whose token has this scope is an operator")
    algorithms: list[
        Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
    ] = Field([*ALGORITHMS], min_length=1, description="signatures that are accepted")
    leeway_s: Annotated[float, Field(ge=0, le=300)] = Field(LEEWAY_S, description="how far clocks may differ")

    def clashes(self) -> Iterator[Clash]:
        """See `Table.clashes`."""
        if self.operator_scope and self.operator_scope in self.required_scopes:
            yield Clash(
                "operator_scope is required of everybody, so everybody would be an operator",
                frozenset({"operator_scope", "required_scopes"}),
            )


class AuthTable(Table):
    """Who may call a server over HTTP. Without it whoever reaches it is its one user: on this machine only."""

    tokens: dict[str, Annotated[list[str], BeforeValidator(_texts)]] = Field(
        {}, description="by caller: the hash of their token, or several, as `saga-mcp token NAME` prints it"
    )
    operators: list[str] = Field([], description="callers that see and finish the sagas of all others")
    oauth: OAuthTable | None = Field(None, description="an authorisation server whose tokens are accepted")


class TeamTable(Table):
    """Callers that may work on one saga together, opened by `saga_begin(team)`."""

    members: list[str] = Field(min_length=1, description="callers, by the names that their tokens have")
    commit: Literal["opener", "any"] = Field(
        "opener", description="who may commit such a saga: whoever opened it, or any member. Any member may abort it"
    )


class LimitsTable(Table):
    """How much one caller may have and send over HTTP; operators may open any number. `0`: no limit."""

    open_sagas: _Number = Field(100, description="of one caller, or one team; in all processes together")
    running_steps: _Number = Field(32, description="of one caller, in one process; and as many reads at a time")
    argument_bytes: _Number = Field(1024 * 1024, description="of one call, as JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What a config says about serving many."""

    http: HttpSettings = field(default_factory=HttpSettings)
    people: People = field(default_factory=People)
    running_steps: int = 32


def read_shared(content: Mapping[str, Any], findings: Findings) -> Shared:
    """Return what is said there; problems are noted."""
    http = _http(validate(HttpTable, content.get("http", {}), ("http",), findings), findings)
    read = validate(AuthTable, content.get("auth", {}), ("auth",), findings)
    auth = read.table if read else AuthTable.model_validate({})
    limits_read = validate(LimitsTable, content.get("limits", {}), ("limits",), findings)
    limits = limits_read.table if limits_read else LimitsTable.model_validate({})
    tokens = _tokens(auth, findings)
    people = People(
        tokens=tokens,
        oauth=_oauth(auth.oauth, http, findings) if auth.oauth is not None else None,
        operators=frozenset(auth.operators),
        teams=_teams(content.get("teams", {}), findings),
        limits=CallerLimits(
            open_sagas=limits.open_sagas, argument_bytes=limits.argument_bytes, calls=limits.running_steps
        ),
    )
    _look_for_strangers(people, findings)
    return Shared(http=http, people=people, running_steps=limits.running_steps)


def _http(read: Any, findings: Findings) -> HttpSettings:  # noqa: ANN401 - a `Read[HttpTable]` or None
    table: HttpTable = read.table if read else HttpTable.model_validate({})
    if table.public_url:
        _check_url(table.public_url, ("http", "public_url"), findings)
    for origin in table.allowed_origins:
        parts = urlsplit(origin.removesuffix(":*"))
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path or parts.query:
            findings.problem(("http", "allowed_origins"), f'"{origin}" is no origin: say https://HOST, without a path')
    for host in table.allowed_hosts:
        if not host.strip() or "/" in host or host == "*":
            findings.problem(("http", "allowed_hosts"), f'"{host}" is no host: say NAME, NAME:PORT or NAME:*')
    return HttpSettings(
        public_url=table.public_url,
        allowed_hosts=tuple(table.allowed_hosts),
        allowed_origins=tuple(table.allowed_origins),
        max_body_bytes=table.max_body_bytes,
        json_replies=table.replies == "json",
        drain_s=table.drain_s,
    )


def _check_url(url: str, path: KeyPath, findings: Findings, *, strict: bool = False) -> None:
    """Note what is wrong with a URL that others have to reach."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        findings.problem(path, "cannot be read as a URL")
        return
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment or parts.username:
        findings.problem(path, "must be a URL that begins with https://, with a host and without ?, # or a password")
    elif parts.scheme == "http" and host not in _LOCAL:
        message = "is not encrypted on its way, so tokens can be read there: use https://"
        (findings.problem if strict else findings.warn)(path, message)


def _tokens(auth: AuthTable, findings: Findings) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    bearers: dict[str, str] = {}
    for caller, hashes in auth.tokens.items():
        path: KeyPath = ("auth", "tokens", caller)
        if not is_name(caller):
            findings.problem(path, f"a caller's name {NAME_RULE}")
        for each in hashes:
            if not _HASH.fullmatch(each):
                findings.problem(path, "must be sha256: and 64 hex digits: `saga-mcp token NAME` makes a token")
            elif bearers.setdefault(each, caller) != caller:
                findings.problem(path, f"is the token of {bearers[each]} too: make one for each caller")
        found[caller] = tuple(each.removeprefix("sha256:") for each in hashes if _HASH.fullmatch(each))
    return {caller: hashes for caller, hashes in found.items() if hashes}


def _oauth(table: OAuthTable, http: HttpSettings, findings: Findings) -> OAuthSettings:
    _check_url(table.issuer, ("auth", "oauth", "issuer"), findings, strict=True)
    if table.jwks_url:
        _check_url(table.jwks_url, ("auth", "oauth", "jwks_url"), findings, strict=True)
    if not table.audience and not http.public_url:
        findings.problem(
            ("auth", "oauth", "audience"),
            "say what tokens are issued for: set http.public_url, or audience. Else a token for any other service of "
            "this issuer would be let in",
        )
    return OAuthSettings(
        issuer=table.issuer,
        audience=table.audience or http.public_url,
        jwks_url=table.jwks_url,
        caller_claim=table.caller_claim,
        required_scopes=tuple(table.required_scopes),
        operator_scope=table.operator_scope,
        algorithms=tuple(table.algorithms),
        leeway_s=table.leeway_s,
    )


def _teams(content: object, findings: Findings) -> dict[str, Team]:
    if not isinstance(content, dict):
        findings.problem(("teams",), "must be a table")
        return {}
    teams: dict[str, Team] = {}
    for name, each in cast("dict[str, object]", content).items():
        if not is_name(name):
            findings.problem(("teams", name), f"a team's name {NAME_RULE}")
        read = validate(TeamTable, each, ("teams", name), findings)
        if read is not None:
            teams[name] = Team(members=frozenset(read.table.members), commit=CommitBy(read.table.commit))
    return teams


def _look_for_strangers(people: People, findings: Findings) -> None:
    """Warn of names that nobody can have."""
    if not people.told_apart:
        if people.teams:
            findings.warn(("teams",), "nobody is told apart without [auth], so nobody is in a team")
        return
    if people.oauth is not None:  # whose callers the config does not list
        return
    for path, names in (
        (("auth", "operators"), people.operators),
        *((("teams", name, "members"), team.members) for name, team in people.teams.items()),
    ):
        for name in sorted(names - people.tokens.keys()):
            findings.warn(path, f'"{name}" has no token in [auth.tokens]')
