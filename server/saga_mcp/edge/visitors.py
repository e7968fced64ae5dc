"""Who stands behind a request, where a server has more than one user.

A port of the MCP server, so that it knows nothing of how callers are told apart; stdio has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from saga_mcp.edge.service import SagaService


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """One caller, and what there is for them."""

    id: str
    sagas: SagaService


class Visitors(Protocol):
    """Tells callers apart."""

    @property
    def teams(self) -> bool:
        """Whether callers may work on one saga together."""
        ...

    def admit(self, request_context: object) -> Visitor:
        """Who made a request, by what its transport says of it.

        Raises:
            Exception: it does not say, so nothing may be done for it.
        """
        ...
