"""Whether an author's function said yes or no, for probes and rules alike.

A module of its own because guessing is what both must not do: `0`, `""` and `{}` are values, and no word for "no".
"""

from __future__ import annotations


def truth(value: object) -> bool | None:
    """Return what a bool says, numpy's included; None for everything else."""
    if isinstance(value, bool):
        return value
    kind = type(value)
    # numpy is none of our dependencies; its bool is called `bool_` before version 2.
    return bool(value) if kind.__module__ == "numpy" and kind.__name__ in {"bool", "bool_"} else None
