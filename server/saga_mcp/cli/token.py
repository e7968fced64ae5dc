"""`saga-mcp token`: makes a token for one caller of a shared server."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from saga_mcp.cli.options import JsonOption
from saga_mcp.cli.output import Output, wrong_usage
from saga_mcp.domain.ownership import NAME_RULE, is_name


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    *,
    as_json: JsonOption = False,
) -> None:
    """Make a token for one caller. It is printed once and kept nowhere; the config gets its hash.

    Example: saga-mcp token alice
    """
    from saga_mcp.edge.http.tokens import hash_of, new_token  # noqa: PLC0415 - no other command pays for it

    if not is_name(name):
        wrong_usage(f"A caller's name {NAME_RULE}.")
    made = new_token()
    line = f'{json.dumps(name, ensure_ascii=False)} = "sha256:{hash_of(made)}"'
    output = Output(as_json)
    if as_json:
        output.json({"caller": name, "token": made, "hash": f"sha256:{hash_of(made)}"})
        return
    output.text(
        f"The token of {name}, shown only now:",
        "",
        f"  {made}",
        "",
        "Into saga.toml, for every server, which then has to be started again:",
        "",
        "  [auth.tokens]",
        f"  {line}",
    )
