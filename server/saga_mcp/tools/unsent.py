"""Why nothing of a call was sent. Of the port: the edge says it to the caller.

What is found before the intent is raised, and the call is no step; what is found after it is an outcome.
"""

from __future__ import annotations

from dataclasses import dataclass


class InvalidArguments(Exception):
    """The arguments do not fit the tool's schema: nothing was sent, and it is not a step (S4.1)."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class UpstreamDown(Exception):
    """The server behind the tool cannot be reached: nothing was sent, and it is not a step."""

    def __init__(self, upstream: str, reason: str) -> None:
        self.upstream = upstream
        self.reason = reason
        super().__init__(f"{upstream} is down: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """Nothing of the call has reached the tool, and nothing will: its server is not there, or did not let it in."""

    reason: str
