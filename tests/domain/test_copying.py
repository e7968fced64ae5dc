"""Our `replace` does what that of the standard library does."""

from __future__ import annotations

import dataclasses

import pytest
from tests.domain.stories import done, saga_of

from saga_mcp.domain.copying import replace
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import ItemKind, PartState

SAGA = saga_of(*done(1))
STEP = SAGA.step(1)
PART = next(iter(STEP.parts or ()))


def every_field(value: Saga | Step | Part) -> list[object]:
    return [getattr(value, field.name) for field in dataclasses.fields(value)]


@pytest.mark.parametrize("value", [SAGA, STEP, PART])
def test_a_copy_without_changes_has_every_field_of_the_original(value: Saga | Step | Part) -> None:
    copy = replace(value)
    assert (copy, every_field(copy)) == (value, every_field(value))
    assert copy is not value


def test_what_is_named_is_changed_and_the_original_is_not() -> None:
    part = replace(PART, state=PartState.WAITING, item=ItemKind.DEAD_LETTER, error="no")
    assert every_field(part) == every_field(
        dataclasses.replace(PART, state=PartState.WAITING, item=ItemKind.DEAD_LETTER, error="no")
    )
    assert PART.state is PartState.PENDING


def test_a_copy_is_as_frozen_as_the_original() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(SAGA).seq = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # that is the test


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError):
        replace(SAGA, sequence=3)  # type: ignore[call-arg]  # mypy knows that too
