"""`ToolRegistry`: where an author says what is a tool, and what undoes it.

The decorators only write entries down and return the function as it is, so it stays directly callable and testable.
They never raise for what does not fit: `check` lists every problem at once, and the server refuses a registry that has
any.
"""

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, Unpack, overload

from saga_tools._build import Registered, build
from saga_tools._entries import Companion, Entry, Forward, Invariant, Part, Role
from saga_tools._errors import PairError, Problem
from saga_tools._signature import name_of, read_signature
from saga_tools._traits import TraitArguments, Traits, UndoArguments, UndoTraits
from saga_tools._typing import CaptureDecorator, F, GuardDecorator, ProbeDecorator, UndoDecorator

R = TypeVar("R")

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens what the tools need, once for the server's life; yields what `call.deps` and `undo.deps` hold."""


class ToolRegistry:
    """The tools of one file or module, with what undoes each.

    Args:
        lifespan: Opens what the tools share, such as clients; entered once, when the server starts.
        name: Stands for these tools in the saga log, so that a step is undone where it was done; by default the name
            in the config.
    """

    def __init__(self, lifespan: Lifespan | None = None, *, name: str | None = None) -> None:
        self.lifespan = lifespan
        self.name = name
        self._entries: list[Entry] = []
        self._built: Registered | None = None

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **traits: Unpack[TraitArguments]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **traits: Unpack[TraitArguments]) -> F | Callable[[F], F]:
        """Register a forward action; bare, or with traits (see `saga_tools.server.Traits`).

        Without `kind` it is compensable, and `undoes` must name what undoes it. Parameters become the tool's arguments,
        the docstring its description. A parameter annotated `Call` receives the call.
        """

        def register(function: F) -> F:
            self._add(function, paired_elsewhere=False, **traits)
            return function

        return register if function is None else register(function)

    @overload
    def undoes(
        self, forward: Callable[..., Coroutine[Any, Any, R]], /, **traits: Unpack[UndoArguments]
    ) -> UndoDecorator[R]: ...
    @overload
    def undoes(self, forward: Callable[..., R], /, **traits: Unpack[UndoArguments]) -> UndoDecorator[R]: ...
    def undoes(self, forward: Callable[..., Any], /, **traits: Unpack[UndoArguments]) -> UndoDecorator[Any]:
        """Register what undoes a forward action; traits as in `saga_tools.server.UndoTraits`.

        It takes any of the forward action's parameters by name, with the values the call had, and optionally, last,
        an `Undo[R]` where R is what the forward action returns. Type checkers refuse an `Undo` of another result; they
        also refuse keyword-only parameters, more than eight, and an `Undo` that is not last, which are right at run
        time.
        """
        return self._companion("undo", forward, UndoTraits(**traits))

    @overload
    def probes(self, forward: Callable[..., Coroutine[Any, Any, R]], /) -> ProbeDecorator[R]: ...
    @overload
    def probes(self, forward: Callable[..., R], /) -> ProbeDecorator[R]: ...
    def probes(self, forward: Callable[..., Any], /) -> ProbeDecorator[Any]:
        """Register a read that tells whether a forward action landed.

        It takes forward parameters by name and optionally the `Call` it asks about, and returns what the forward
        action would have returned, or None if it is known not to have happened. An exception gives no verdict, nor
        does False or anything else that is no result of the forward action.
        """
        return self._companion("probe", forward)

    def captures(self, forward: Callable[..., Any], /) -> CaptureDecorator:
        """Register a read that is made right before a forward action and kept for its undo, as `undo.capture`.

        It takes forward parameters by name and optionally the `Call`, whose `key` and `step` are not known yet; what it
        returns is stored as JSON. None says that nothing is there. Where it raises, the call is refused and nothing is
        sent.
        """
        return self._companion("capture", forward)

    def guards(self, forward: Callable[..., Any], /) -> GuardDecorator:
        """Register a check that is made before every attempt to undo a forward action.

        It takes forward parameters by name and optionally the `Undo`, and returns how it finds the world: `"as_left"`
        (undo it), `"as_before"` (there is nothing to undo) or `"changed"` (a person decides). Where the tool's capture
        is all that is to be compared, say `guard="unchanged"` on the tool instead.
        """
        return self._companion("guard", forward)

    @overload
    def part(self, function: F, /) -> F: ...
    @overload
    def part(self, /, **traits: Unpack[UndoArguments]) -> Callable[[F], F]: ...
    def part(self, function: F | None = None, /, **traits: Unpack[UndoArguments]) -> F | Callable[[F], F]:
        """Mark a function as one that `Call.on_undo` may name; bare, or with traits as `undoes` takes."""

        def register(function: F) -> F:
            self._enter(Part(read_signature(function, name_of(function)), UndoTraits(**traits)))
            return function

        return register if function is None else register(function)

    def invariant(self, function: F, /) -> F:
        """Register a rule over the results of a saga: it returns None or True where the rule holds.

        Where it is violated, it raises or returns False; any other answer counts as that too.
        """
        self._enter(Invariant(read_signature(function, name_of(function))))
        return function

    def check(self) -> list[Problem]:
        """Return everything that is wrong with the tools registered so far."""
        return list(self._view().problems)

    def _add(
        self, function: Callable[..., object], *, paired_elsewhere: bool, **traits: Unpack[TraitArguments]
    ) -> None:
        own: dict[str, Any] = {**traits}
        title: str | None = own.pop("title", None)
        name: str = own.pop("name", None) or name_of(function)
        signature = read_signature(function, name)
        self._enter(Forward(name, title, signature, Traits(**own), paired_elsewhere))

    def _companion(self, role: Role, forward: Callable[..., Any], traits: UndoTraits | None = None) -> Callable[[F], F]:
        def register(function: F) -> F:
            signature = read_signature(function, name_of(forward))
            self._enter(Companion(role, forward, signature, traits or UndoTraits()))
            return function

        return register

    def _enter(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._built = None

    def _view(self) -> Registered:
        if self._built is None:
            self._built = build(self._entries)
        return self._built


def add(registry: ToolRegistry, function: Callable[..., object], **traits: Unpack[TraitArguments]) -> None:
    """Register a forward action whose undo is declared in the config, so that none is missing in the code.

    Args:
        registry: Where to.
        function: The forward action.
        traits: As for `ToolRegistry.tool`.
    """
    # The two functions here are the server's door to a registry, kept out of authors' sight.
    registry._add(function, paired_elsewhere=True, **traits)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # see above


def registered(registry: ToolRegistry) -> Registered:
    """Return what a registry holds.

    Raises:
        PairError: Something is wrong with it; it lists every problem.
    """
    found = registry._view()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # see `add`
    if found.problems:
        raise PairError(found.problems)
    return found
