"""The types of the pair decorators: what lets mypy and pyright refuse an undo of the wrong result.

An undo takes any of the forward action's parameters by name and, last, optionally an `Undo[R]` where R is what the
forward action returns. Neither "any subset by name" nor "no parameter of this type" can be written as one signature,
so `UndoDecorator` lists the shapes by number of parameters. A parameter that is not the undo's own `Undo[R]` is bound
to `Ordinary`, which every type but `Undo` fulfils; so a wrong `Undo[X]` fits no shape. `Both` says a function has two
signatures at once: the one that is inferred keeps the parameters' names for the author's own calls, the other is the
shape that is asked for.

The shapes with an `Undo` come last, because pyright explains the last one when none fits.

Keyword-only parameters, and an `Undo` that is not last, are correct at run time but fit no shape here.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Never, ParamSpec, Protocol, SupportsIndex, TypeVar, overload

from saga_tools._context import Undo
from saga_tools._traits import World


class Ordinary(Protocol):
    """Every type but `Undo`, which declares this method as None."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        """Whatever `object` has."""
        ...


F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Own = ParamSpec("Own")
Shape = ParamSpec("Shape")
A1 = TypeVar("A1", bound=Ordinary)
A2 = TypeVar("A2", bound=Ordinary)
A3 = TypeVar("A3", bound=Ordinary)
A4 = TypeVar("A4", bound=Ordinary)
A5 = TypeVar("A5", bound=Ordinary)
A6 = TypeVar("A6", bound=Ordinary)
A7 = TypeVar("A7", bound=Ordinary)
A8 = TypeVar("A8", bound=Ordinary)


class Both(Protocol[Own, Shape, T_co]):
    """A function that can be called in two ways."""

    @overload
    def __call__(self, *args: Own.args, **kwargs: Own.kwargs) -> T_co: ...
    @overload
    def __call__(self, *args: Shape.args, **kwargs: Shape.kwargs) -> T_co: ...


class UndoDecorator(Protocol[R_co]):  # pyright: ignore[reportInvalidTypeVarUse]  # mypy requires it covariant
    """Takes an undo of a forward action that returns R, and returns that very function."""

    @overload
    def __call__(self, function: Both[Own, [], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1, A2], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1, A2, A3], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1, A2, A3, A4], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1, A2, A3, A4, A5], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1, A2, A3, A4, A5, A6], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1, A2, A3, A4, A5, A6, A7], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [A1, A2, A3, A4, A5, A6, A7, A8], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(
        self, function: Both[Own, [Never, Never, Never, Never, Never, Never, Never, Never, Undo[R_co]], T], /
    ) -> Callable[Own, T]: ...
    @overload
    def __call__(
        self, function: Both[Own, [Never, Never, Never, Never, Never, Never, Never, Undo[R_co]], T], /
    ) -> Callable[Own, T]: ...
    @overload
    def __call__(
        self, function: Both[Own, [Never, Never, Never, Never, Never, Never, Undo[R_co]], T], /
    ) -> Callable[Own, T]: ...
    @overload
    def __call__(
        self, function: Both[Own, [Never, Never, Never, Never, Never, Undo[R_co]], T], /
    ) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [Never, Never, Never, Never, Undo[R_co]], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [Never, Never, Never, Undo[R_co]], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [Never, Never, Undo[R_co]], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [Never, Undo[R_co]], T], /) -> Callable[Own, T]: ...
    @overload
    def __call__(self, function: Both[Own, [Undo[R_co]], T], /) -> Callable[Own, T]: ...


class CaptureDecorator(Protocol):
    """Takes a capture: any function of the forward action's parameters; None says that nothing is there."""

    def __call__(self, function: F, /) -> F: ...


class GuardDecorator(Protocol):
    """Takes a guard: a function that says how it found the world."""

    @overload
    def __call__(
        self, function: Callable[Own, Coroutine[Any, Any, World]], /
    ) -> Callable[Own, Coroutine[Any, Any, World]]: ...
    @overload
    def __call__(self, function: Callable[Own, World], /) -> Callable[Own, World]: ...


class ProbeDecorator(Protocol[R]):
    """Takes a probe of a forward action that returns R: a function that returns R, or None for known absent."""

    @overload
    def __call__(
        self, function: Callable[Own, Coroutine[Any, Any, R | None]], /
    ) -> Callable[Own, Coroutine[Any, Any, R | None]]: ...
    @overload
    def __call__(self, function: Callable[Own, R | None], /) -> Callable[Own, R | None]: ...
