"""Why nothing of a call was sent, so that it is no step. Of the port: the edge says them to the caller."""

from __future__ import annotations


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
