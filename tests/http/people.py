"""Callers of a shared server, and the config that knows them."""

from __future__ import annotations

from tests.e2e.product import Product

from saga_mcp.edge.http.tokens import hash_of

NAMES = ("alice", "bob", "eve", "op")
TOKENS = {name: f"sgt_{name}-for-tests-only" for name in NAMES}


def share(product: Product, saga: str = "", tools: str = "") -> None:
    """Serve four callers: `alice` and `bob` are in two teams, `op` is an operator, `eve` is nobody's friend."""
    tokens = "\n".join(f'{name} = "sha256:{hash_of(token)}"' for name, token in TOKENS.items())
    product.configure(
        saga,
        f"""
[auth]
operators = ["op"]

[auth.tokens]
{tokens}

[teams.desk]
members = ["alice", "bob"]

[teams.shift]
members = ["alice", "bob"]
commit = "any"
{tools}
""",
    )
