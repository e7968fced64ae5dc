"""What went wrong, without the task groups that it passed through on its way out."""

from __future__ import annotations

from typing import cast


def causes(error: BaseException) -> list[BaseException]:
    """Every exception in a group, or the one that it is."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [found for part in group.exceptions for found in causes(part)]
    return [error]
