"""`ToolRegistry`: where an author says what is a tool, and what undoes it.

The decorators only write entries down and return the function as it is, so it stays directly callable and testable.
They never raise for what does not fit: `check` lists every problem at once, and `tools` refuses to hand out a registry
that has any.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, Unpack, overload

from saga_tools._build import Built, build
from saga_tools._entries import Companion, Entry, Forward, Invariant, Part, Role
from saga_tools._errors import PairError, Problem, did_you_mean
from saga_tools._model import RegisteredInvariant, RegisteredTool, RegisteredUndo
from saga_tools._signature import name_of, read_signature
from saga_tools._traits import TraitArguments, Traits, UndoArguments, UndoTraits
from saga_tools._typing import F, ProbeDecorator, UndoDecorator

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
        self._built: Built | None = None

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **traits: Unpack[TraitArguments]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **traits: Unpack[TraitArguments]) -> F | Callable[[F], F]:
        """Register a forward action; bare, or with traits (see `Traits`).

        Without `kind` it is compensable, and `undoes` must name what undoes it. Parameters become the tool's arguments,
        the docstring its description. A parameter annotated `Call` receives the call.
        """
        if function is not None:
            return self.add(function, **traits)

        def register(function: F) -> F:
            return self.add(function, **traits)

        return register

    def add(self, function: F, *, paired_elsewhere: bool = False, **traits: Unpack[TraitArguments]) -> F:
        """Register a forward action without a decorator.

        Args:
            function: The forward action.
            paired_elsewhere: Its undo is declared in the config, so none is missing here.
            traits: As for `tool`.
        """
        own: dict[str, Any] = {**traits}
        title: str | None = own.pop("title", None)
        name: str = own.pop("name", None) or name_of(function)
        signature = read_signature(function, name)
        settings = Traits(**own)
        self._enter(Forward(name, title, signature, settings, paired_elsewhere))
        return function

    @overload
    def undoes(
        self, forward: Callable[..., Coroutine[Any, Any, R]], /, **traits: Unpack[UndoArguments]
    ) -> UndoDecorator[R]: ...
    @overload
    def undoes(self, forward: Callable[..., R], /, **traits: Unpack[UndoArguments]) -> UndoDecorator[R]: ...
    def undoes(self, forward: Callable[..., Any], /, **traits: Unpack[UndoArguments]) -> UndoDecorator[Any]:
        """Register what undoes a forward action; traits as in `UndoTraits`.

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
        action would have returned, or None if it is known not to have happened. An exception gives no verdict.
        """
        return self._companion("probe", forward)

    def captures(self, forward: Callable[..., Any], /) -> Callable[[F], F]:
        """Register a read made before a forward action; what it returns is kept as `undo.capture`."""
        return self._companion("capture", forward)

    @overload
    def guards(self, forward: Callable[..., Coroutine[Any, Any, R]], /) -> UndoDecorator[R]: ...
    @overload
    def guards(self, forward: Callable[..., R], /) -> UndoDecorator[R]: ...
    def guards(self, forward: Callable[..., Any], /) -> UndoDecorator[Any]:
        """Register a check made before each attempt of an undo; it takes what the undo may take.

        It returns a `GuardVerdict`.
        """
        return self._companion("guard", forward)

    @overload
    def part(self, function: F, /) -> F: ...
    @overload
    def part(self, /, **traits: Unpack[UndoArguments]) -> Callable[[F], F]: ...
    def part(self, function: F | None = None, /, **traits: Unpack[UndoArguments]) -> F | Callable[[F], F]:
        """Mark a function as one that `Call.on_undo` may name; bare, or with traits as in `UndoTraits`."""

        def register(function: F) -> F:
            self._enter(Part(read_signature(function, name_of(function)), UndoTraits(**traits)))
            return function

        return register if function is None else register(function)

    def invariant(self, function: F, /) -> F:
        """Register a rule over the results of a saga: it raises, or returns False, where the rule is violated."""
        self._enter(Invariant(read_signature(function, name_of(function))))
        return function

    def check(self) -> list[Problem]:
        """Return everything that is wrong with the tools registered so far."""
        return list(self._view().problems)

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """The tools by name, in the order of registration.

        Raises:
            PairError: Something is wrong with them; it lists every problem.
        """
        return self._sound().tools

    @property
    def callables(self) -> Mapping[str, RegisteredUndo]:
        """The undos and parts by the name under which they are stored.

        Raises:
            PairError: As for `tools`.
        """
        return self._sound().callables

    @property
    def invariants(self) -> tuple[RegisteredInvariant, ...]:
        """The rules over the results of a saga, in the order of registration.

        Raises:
            PairError: As for `tools`.
        """
        return self._sound().invariants

    def callable_for(self, function: Callable[..., object]) -> RegisteredUndo:
        """Return the undo or part that `Call.on_undo` was given.

        Raises:
            PairError: The function is neither.
        """
        callables = self.callables
        for candidate in callables.values():
            if candidate.function is function:
                return candidate
        name = name_of(function)
        text = f"on_undo was given `{name}`, which is neither an undo nor a part of this registry"
        raise PairError([Problem(name, text, f"put `@registry.part` on it{did_you_mean(name, callables)}")])

    def _companion(self, role: Role, forward: Callable[..., Any], traits: UndoTraits | None = None) -> Callable[[F], F]:
        def register(function: F) -> F:
            signature = read_signature(function, name_of(forward))
            self._enter(Companion(role, forward, signature, traits or UndoTraits()))
            return function

        return register

    def _enter(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._built = None

    def _view(self) -> Built:
        if self._built is None:
            self._built = build(self._entries)
        return self._built

    def _sound(self) -> Built:
        built = self._view()
        if built.problems:
            raise PairError(built.problems)
        return built
