"""Lets callers in: checks their tokens with the SDK's own parts, and hands each the sagas that are theirs.

A request that got as far as a tool has passed this gate, and `Callers.admit` still believes nothing but what the
middleware wrote down: without it there is nobody to do anything for.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from saga_mcp.domain.ownership import Principal
from saga_mcp.edge.http.keys import SigningKeys
from saga_mcp.edge.http.oauth import OAuthTokens
from saga_mcp.edge.http.settings import OAuthSettings, People
from saga_mcp.edge.http.tokens import PREFIX, StaticTokens
from saga_mcp.edge.owned import OwnedSagas, Owners
from saga_mcp.edge.service import SagaService
from saga_mcp.edge.visitors import Visitor

_METADATA = "/.well-known/oauth-protected-resource"


class NobodyKnown(Exception):
    """A request came past the gate without a caller: a bug, and nothing is done for it."""


class Callers:
    """The callers of one process; the edge's `Visitors`."""

    def __init__(self, service: SagaService, people: People) -> None:
        self._service = service
        self._people = people
        self._owners = Owners()

    @property
    def teams(self) -> bool:
        """See `Visitors`."""
        return bool(self._people.teams)

    def admit(self, request_context: object) -> Visitor:
        """See `Visitors`."""
        principal = self._principal(request_context)
        sagas = OwnedSagas(self._service, principal, self._owners, self._people.limits)
        return Visitor(id=principal.id, sagas=sagas)

    def _principal(self, request_context: object) -> Principal:
        people = self._people
        if not people.told_apart:
            return Principal(id="")
        scope: object = getattr(request_context, "scope", None)
        user = cast("dict[str, object]", scope).get("user") if isinstance(scope, dict) else None
        if not isinstance(user, AuthenticatedUser) or not user.access_token.subject:
            raise NobodyKnown
        caller = user.access_token.subject
        by_scope = people.oauth.operator_scope if people.oauth is not None else ""
        return Principal(
            id=caller,
            operator=caller in people.operators or (bool(by_scope) and by_scope in user.scopes),
            teams={name: team.commit for name, team in people.teams.items() if caller in team.members},
        )


class _Tokens:
    """Either kind of token; the SDK's `TokenVerifier`."""

    def __init__(self, people: People, oauth: OAuthSettings | None) -> None:
        scopes = oauth.required_scopes if oauth is not None else ()
        self._static = StaticTokens(people.tokens, scopes)
        self._oauth: OAuthTokens | None = None
        if oauth is not None:
            keys = SigningKeys(oauth.issuer, oauth.jwks_url, oauth.algorithms)
            self._oauth = OAuthTokens(oauth, keys, people.tokens)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who bears it; None: nobody that is known."""
        if self._oauth is None or token.startswith(PREFIX):
            return await self._static.verify_token(token)
        return await self._oauth.verify_token(token)


class Gate:
    """Checks the token of each request.

    Args:
        people: who may come in.
        oauth: the authorisation server whose tokens count, its audience filled in.
        url: of the MCP endpoint, as clients have it.
    """

    def __init__(self, people: People, oauth: OAuthSettings | None, url: str) -> None:
        self._backend = BearerAuthBackend(_Tokens(people, oauth))
        self._scopes = list(oauth.required_scopes) if oauth is not None else []
        self._auth: AuthSettings | None = None
        if oauth is not None:
            described = {"issuer_url": oauth.issuer, "resource_server_url": url, "required_scopes": self._scopes}
            # The verifier checks the audience itself.
            self._auth = AuthSettings.model_validate({**described, "validate_token_resource": False})

    def around(self, app: ASGIApp) -> ASGIApp:
        """The endpoint, behind the gate."""
        resource = self._auth.resource_server_url if self._auth else None
        metadata = None if resource is None else build_resource_metadata_url(resource)
        required = RequireAuthMiddleware(app, self._scopes, metadata)
        return AuthenticationMiddleware(required, backend=self._backend, on_error=_cannot_say)

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """Where clients read which authorisation server to ask (RFC 9728); at the root too, where some look."""
        if self._auth is None or self._auth.resource_server_url is None:
            return ()
        described = create_protected_resource_routes(
            self._auth.resource_server_url, [self._auth.issuer_url], self._scopes or None, resource_name="saga-mcp"
        )
        return [*described, *(Route(_METADATA, each.endpoint, methods=["GET", "OPTIONS"]) for each in described)]


def _cannot_say(_: HTTPConnection, __: Exception) -> Response:
    """The authorisation server cannot be asked: nothing is wrong with the token, so the client keeps it."""
    return JSONResponse(
        {"error": "temporarily_unavailable", "error_description": "the authorisation server cannot be asked"},
        status_code=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": "10"},
    )
