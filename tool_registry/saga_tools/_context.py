"""What a running forward action or undo is given: `Call` and `Undo`.

A tool names one of them in an annotation and receives it; it never shows in the tool's JSON Schema. Both can be built
by hand, so that a tool is tested without any server.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

R_co = TypeVar("R_co", covariant=True)


class OnUndo(Protocol):
    """Stores a further undo of the running step; the engine gives it to each `Call`."""

    async def __call__(self, function: Callable[..., object], arguments: Mapping[str, Any], /) -> None:
        """Return once the undo is durable.

        Raises:
            PairError: `function` is neither an undo nor a part of this registry.
            InvalidArguments: `arguments` do not fit it.
        """
        ...


class Report(Protocol):
    """Tells whoever waits for a call how far it has come; the engine gives it to each `Call`."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Return once it is told; nothing happens where nobody asked, or nobody waits any more."""
        ...


async def _tell_nobody(progress: float, total: float | None, message: str | None) -> None:
    """In place of a caller who did not ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The call a forward action or a probe works for.

    Attributes:
        key: Idempotency key: the same for every attempt of this step, and for its probe.
        saga_id: The saga the step belongs to.
        step: The step's number in its saga, from 1.
        attempt: Which attempt this is, from 1.
        deps: What the registry's lifespan yielded.
    """

    key: str
    saga_id: str
    step: int
    attempt: int = 1
    deps: Any = None
    store_undo: OnUndo = field(repr=False, compare=False)
    report: Report = field(default=_tell_nobody, repr=False, compare=False)

    async def on_undo(self, function: Callable[..., object], /, **arguments: object) -> None:
        """Register a further undo of this step, durable when this returns.

        Such undos run after the pair's own undo, last registered first. A plain `def` tool, which runs in a thread,
        says `asyncio.run(call.on_undo(...))`.

        Args:
            function: A function marked `@registry.part`, or an undo of this registry.
            arguments: What it will be called with; stored as JSON.

        Raises:
            PairError: The function is neither.
            InvalidArguments: The arguments do not fit it.
        """
        await self.store_undo(function, arguments)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far this call has come, if it asked; some wait longer then.

        A plain `def` tool, which runs in a thread, says `asyncio.run(call.report_progress(...))`.

        Args:
            progress: More with each report, in whatever unit.
            total: How much there is to do, if known.
            message: What is being done, for people.
        """
        await self.report(progress, total, message)

    @classmethod
    def for_test(
        cls,
        *,
        key: str = "test-key",
        saga_id: str = "sg-test",
        step: int = 1,
        attempt: int = 1,
        deps: object = None,
        undos: list[tuple[Callable[..., object], dict[str, Any]]] | None = None,
        reports: list[tuple[float, float | None, str | None]] | None = None,
    ) -> Self:
        """Build a call for a unit test; what `on_undo` registers goes to `undos`, what is reported to `reports`."""
        registered = [] if undos is None else undos
        told = [] if reports is None else reports

        async def remember(function: Callable[..., object], arguments: Mapping[str, Any], /) -> None:
            registered.append((function, dict(arguments)))

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, total, message))

        return cls(key=key, saga_id=saga_id, step=step, attempt=attempt, deps=deps, store_undo=remember, report=tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(Generic[R_co]):
    """What an undo knows about the step it undoes.

    Attributes:
        args: The forward action's arguments by name, defaults included.
        result: What the forward action returned; `None` where its outcome is in doubt.
        capture: What `@registry.captures` returned before the forward action; `None` if nothing was there, or without.
        call_key: The forward action's idempotency key.
        key: The undo's own idempotency key: the same for every attempt of it.
        cause: Why the step is undone: `agent`, `operator`, `step_failed:N`, `invariant:NAME` or `idle`.
        results: The last result of each tool of the saga, by tool name, as it was when the step began.
        deps: What the registry's lifespan yielded.
    """

    args: Mapping[str, Any]
    result: R_co | None
    call_key: str
    key: str
    cause: str
    results: Mapping[str, Any]
    deps: Any = None
    capture: Any = None

    # An undo holds live clients, so it is never pickled. The declared None is also what lets a type
    # checker tell an Undo from every other parameter type (see `_typing`).
    __reduce_ex__: ClassVar[None] = None  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]  # on purpose, see above

    @classmethod
    def for_test(  # noqa: PLR0913 - one keyword for each attribute, all optional
        cls,
        *,
        args: Mapping[str, Any] | None = None,
        result: R_co | None = None,
        call_key: str = "test-key",
        key: str = "test-key.u1.g0",
        cause: str = "agent",
        results: Mapping[str, Any] | None = None,
        deps: object = None,
        capture: object = None,
    ) -> Self:
        """Build an undo for a unit test."""
        return cls(
            args=args or {},
            result=result,
            call_key=call_key,
            key=key,
            cause=cause,
            results=results or {},
            deps=deps,
            capture=capture,
        )
