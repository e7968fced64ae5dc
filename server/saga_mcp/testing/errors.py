"""What a user's test may catch. In a module of its own because every other module here raises one of them."""

from __future__ import annotations


class InjectedFault(Exception):
    """What a tool or an undo raises where `Harness.fail` or `fail_undo` says so, unless they were given an error."""


class CallFailed(Exception):
    """A call was answered with an error, as an agent would see it.

    Attributes:
        tool: The tool, or the control tool such as `saga_commit`.
        code: The stable code of the answer, such as `step_failed` or `saga_aborted`.
    """

    def __init__(self, tool: str, code: str, message: str) -> None:
        self.tool = tool
        self.code = code
        super().__init__(f"{tool}: {code}: {message}")


class ServerDied(CallFailed):
    """The server died before it answered, as a failure with `when="crash"` asked for; another one runs by now."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool, "server_died", "the server died before it answered")


class FaultUnused(AssertionError):
    """A failure was asked for and never happened, so the test did not test what it says."""
