"""What can be wrong with tools and pairs, each with what to do about it.

Pure: entries in, problems out. Nothing here raises, so that an author sees every problem at once.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from saga_tools._entries import Companion, Forward, Invariant
from saga_tools._errors import Problem, did_you_mean
from saga_tools._signature import MISSING, Signature, accepts, describe, may_be_bool, says_yes_or_no
from saga_tools._traits import ErrorMeans, Kind, OnRepeat

NAME = re.compile(r"[a-zA-Z0-9_]{1,48}")
"""The names every known client accepts, with room for the prefix that some of them add."""

CHOICES = (("kind", Kind), ("error_means", ErrorMeans), ("on_repeat", OnRepeat))


def check_forward(forward: Forward) -> Iterator[Problem]:
    """Check one tool by itself: its name, parameters and traits."""
    where, traits = forward.signature.where, forward.traits
    if not NAME.fullmatch(forward.name):
        fix = 'give it another one with `@registry.tool(name="...")`'
        yield Problem(forward.name, "its name is not 1 to 48 letters, digits and underscores", fix, where)
    if forward.name.startswith("saga_"):
        yield Problem(forward.name, "names that begin with `saga_` are the server's own", "rename it", where)
    for name in forward.signature.parameters:
        if name.startswith("saga__"):
            fix = "rename it"
            yield Problem(forward.name, f"parameter `{name}`: `saga__` is the server's own prefix", fix, where)
    if forward.signature.undo_parameter:
        text = f"`{forward.signature.undo_parameter}` takes an Undo, but this is the forward action"
        yield Problem(forward.name, text, "take a `Call`", where)
    for trait, choices in CHOICES:
        value = getattr(traits, trait)
        if value not in get_args(choices):
            close = did_you_mean(str(value), get_args(choices))
            fix = f"use one of {', '.join(get_args(choices))}"
            yield Problem(forward.name, f"{trait} is {value!r}{close}", fix, where)
    # A type checker refuses it; whoever has none is told here. What its expressions name only the server can read.
    if not isinstance(traits.resource, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        fix = 'use a text such as "customer:${args.customer_id}"'
        yield Problem(forward.name, f"resource is {traits.resource!r}, and has to be a text", fix, where)
    elif traits.resource and traits.kind == "read_only":
        yield Problem(forward.name, "resource is of a read_only tool, which holds nothing", "drop it", where)
    if isinstance(traits.secret, str):
        fix = f'use secret=["{traits.secret}"]'
        yield Problem(forward.name, f"secret is {traits.secret!r}, and has to be a list of parameters", fix, where)
    else:
        for name in traits.secret:
            if name not in forward.signature.parameters:
                close = did_you_mean(name, forward.signature.parameters)
                fix = "name a parameter of it, or drop it"
                yield Problem(forward.name, f"secret names `{name}`, which is no parameter{close}", fix, where)
    yield from check_timeout(forward.name, traits.timeout_s, where)
    if traits.settle_s < 0:
        yield Problem(forward.name, f"settle_s is {traits.settle_s}", "use seconds, 0 or more", where)
    if traits.hard_deadline_s is not None and traits.hard_deadline_s < traits.timeout_s:
        yield Problem(forward.name, "hard_deadline_s is shorter than timeout_s", "make it longer", where)


def check_timeout(tool: str, timeout_s: float, where: str) -> Iterator[Problem]:
    """Check a time limit."""
    if timeout_s <= 0:
        yield Problem(tool, f"timeout_s is {timeout_s}", "use seconds, more than 0", where)


def check_whole(forward: Forward, companions: Iterable[Companion]) -> Iterator[Problem]:
    """Check one tool together with what belongs to it: is it undoable, or said not to be?"""
    roles = {companion.role for companion in companions}
    kind, where = forward.traits.kind, forward.signature.where
    if kind == "compensable" and "undo" not in roles and not forward.paired_elsewhere:
        fix = (
            f'add `@registry.undoes({forward.signature.name})`, or say kind="read_only", "pivot" (cannot be undone) '
            'or "retriable" (runs after the pivot until it succeeds)'
        )
        yield Problem(forward.name, "nothing undoes it", fix, where)
    guard = forward.traits.guard
    if guard not in {None, "unchanged"}:
        yield Problem(forward.name, f"guard is {guard!r}", 'use "unchanged", or `@registry.guards`', where)
    if guard == "unchanged" and "capture" not in roles and not forward.paired_elsewhere:
        fix = f"add `@registry.captures({forward.signature.name})`"
        yield Problem(forward.name, "nothing is captured that could be unchanged", fix, where)
    if forward.traits.ignore_order and guard is None:
        yield Problem(forward.name, "ignore_order is of a guard that it does not have", 'say guard="unchanged"', where)
    if guard is not None and "guard" in roles:
        yield Problem(forward.name, "it has two guards", f"drop `@registry.guards` or guard={guard!r}", where)
    if kind == "retriable" and not (forward.traits.idempotent or "probe" in roles or forward.paired_elsewhere):
        fix = f"declare idempotent=True, or add `@registry.probes({forward.signature.name})`"
        yield Problem(forward.name, "a retriable tool cannot be repeated blindly", fix, where)


def check_companion(companion: Companion, forward: Forward) -> Iterator[Problem]:
    """Check an undo or a probe against its forward action."""
    signature, kind, role = companion.signature, forward.traits.kind, companion.role
    if kind == "read_only" or (kind != "compensable" and role != "probe"):
        fix = f"drop `{signature.name}`, or make `{forward.name}` compensable"
        yield Problem(forward.name, f"a {kind} tool has no {role}", fix, signature.where)
    yield from _check_parameters(signature, forward)
    if signature.call_parameter and role == "undo":
        text = f"undo `{signature.name}` takes a Call, but it runs when the call is over"
        yield Problem(forward.name, text, "take an `Undo`; it has `call_key`", signature.where)
    if signature.call_parameter and role == "guard":
        text = f"guard `{signature.name}` takes a Call, but it runs when the call is over"
        yield Problem(forward.name, text, "take an `Undo`; it has `call_key`", signature.where)
    if signature.undo_parameter and role in {"probe", "capture"}:
        text = f"{role} `{signature.name}` takes an Undo, but none is running then"
        yield Problem(forward.name, text, "take a `Call`", signature.where)
    returns = forward.signature.returns
    if not accepts(signature.undo_result, returns):
        expected, given = describe(returns), describe(signature.undo_result)
        text = f"{role} `{signature.name}` takes Undo[{given}], but `{forward.name}` returns {expected}"
        yield Problem(forward.name, text, f"annotate it `Undo[{expected}]`", signature.where)
    if role == "probe" and (
        not accepts(returns | None if returns is not MISSING else returns, signature.returns)
        or (says_yes_or_no(signature.returns) and not may_be_bool(returns))
    ):
        text = f"probe `{signature.name}` returns {describe(signature.returns)}"
        fix = f"return what `{forward.name}` returns, {describe(returns)}, or None for known absent"
        yield Problem(forward.name, text, fix, signature.where)


def check_invariant(invariant: Invariant) -> Iterator[Problem]:
    """Check that an invariant takes the results and nothing else, and answers without waiting."""
    signature = invariant.signature
    if len(signature.parameters) != 1 or signature.call_parameter or signature.undo_parameter:
        fix = "take one parameter, `results`: the last result of each tool, by tool name"
        yield Problem(signature.name, "an invariant takes the results of a saga", fix, signature.where)
    if signature.is_async:
        yield Problem(signature.name, "an invariant is asked at once", "make it a plain function", signature.where)


def check_unique(named: Sequence[tuple[str, Any, str]], what: str) -> Iterator[Problem]:
    """Check that no two different functions share a name; `named` holds name, function and place."""
    first: dict[str, tuple[Any, str]] = {}
    for name, function, where in named:
        other, place = first.setdefault(name, (function, where))
        if other is not function:
            yield Problem(name, f"two {what} have this name, the other at {place}", "rename one", where)


def _check_parameters(signature: Signature, forward: Forward) -> Iterator[Problem]:
    known = forward.signature.parameters
    for name, parameter in signature.parameters.items():
        if name not in known:
            text = (
                f"`{signature.name}` has a parameter `{name}` that `{forward.name}` has not{did_you_mean(name, known)}"
            )
            takes = ", ".join(known) or "no parameters"
            yield Problem(forward.name, text, f"use its parameters by name: {takes}", signature.where)
        elif not accepts(parameter.annotation, known[name].annotation):
            expected, given = describe(known[name].annotation), describe(parameter.annotation)
            text = f"`{name}` is {given} in `{signature.name}`, but {expected} in `{forward.name}`"
            yield Problem(forward.name, text, f"annotate it {expected}", signature.where)
