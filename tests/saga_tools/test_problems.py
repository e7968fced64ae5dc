"""What is wrong with a pair is said in one list, each with the tool, what to do, and where it is."""

import math
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from saga_tools import Call, PairError, Retry, ToolRegistry, Undo
from saga_tools.server import Kind, add, registered


class Charge(BaseModel):
    id: str


class Extras(TypedDict):
    bags: int


class Other(TypedDict):
    bags: int


def charge(customer: str, cents: int = 100) -> Charge:
    return Charge(id=f"{customer}{cents}")


def only_problem(registry: ToolRegistry) -> str:
    problems = registry.check()
    assert len(problems) == 1, problems
    assert problems[0].where.startswith("test_problems.py:")
    return str(problems[0])


def untyped(decorator: object) -> Callable[[Callable[..., object]], object]:
    """What a type checker would refuse must be refused at run time too, for those who use none."""
    return cast("Callable[[Callable[..., object]], object]", decorator)


def with_undo(undo: Callable[..., object]) -> ToolRegistry:
    registry = ToolRegistry()
    registry.tool(charge)
    untyped(registry.undoes(charge))(undo)
    return registry


@pytest.mark.case(85)
def test_a_write_tool_that_nothing_undoes_is_told_what_its_choices_are() -> None:
    registry = ToolRegistry()
    registry.tool(charge)
    assert "charge: nothing undoes it; add `@registry.undoes(charge)`, or say kind=" in only_problem(registry)


def test_a_registry_with_problems_hands_nothing_out_and_lists_all_of_them() -> None:
    registry = ToolRegistry()

    @registry.tool
    def first() -> None: ...

    @registry.tool(kind="retriable", timeout_s=-1)
    def second() -> None: ...

    with pytest.raises(PairError) as refused:
        _ = registered(registry).tools
    assert [problem.tool for problem in refused.value.problems] == ["first", "second", "second"]
    assert refused.value.problems == tuple(registry.check())
    assert str(refused.value).count("\n") == 2


def test_an_undo_parameter_that_the_forward_action_has_not_is_named_with_the_nearest() -> None:
    def refund(custmer: str) -> None: ...

    problem = only_problem(with_undo(refund))
    assert "`refund` has a parameter `custmer` that `charge` has not, did you mean `customer`?" in problem
    assert "use its parameters by name: customer, cents" in problem


def test_an_undo_parameter_of_another_type_is_refused() -> None:
    def refund(cents: str) -> None: ...

    assert "`cents` is str in `refund`, but int in `charge`; annotate it int" in only_problem(with_undo(refund))


def test_an_undo_of_another_result_is_refused() -> None:
    def refund(undo: Undo[int]) -> None: ...

    assert "takes Undo[int], but `charge` returns Charge; annotate it `Undo[Charge]`" in only_problem(with_undo(refund))


def test_an_undo_may_take_wider_types_or_none() -> None:
    def refund(customer, cents: float, undo: Undo[BaseModel]) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # the point

    assert with_undo(cast("Callable[..., object]", refund)).check() == []


def test_an_undo_that_takes_a_call_is_told_to_take_an_undo() -> None:
    def refund(call: Call) -> None: ...

    assert "undo `refund` takes a Call, but it runs when the call is over" in only_problem(with_undo(refund))


def test_a_second_undo_of_one_tool_is_refused() -> None:
    registry = with_undo(lambda: None)

    @registry.undoes(charge)
    def refund() -> None: ...

    assert "it has two functions as undo: `<lambda>` and `refund`" in only_problem(registry)


def test_an_undo_of_a_function_that_is_no_tool_is_refused() -> None:
    registry = ToolRegistry()

    @registry.undoes(charge)
    def refund() -> None: ...

    problem = only_problem(registry)
    assert "`refund` is the undo of `charge`, which is no tool of this registry; put `@registry.tool` on it" in problem


@pytest.mark.parametrize("kind", ["read_only", "pivot", "retriable"])
def test_only_compensable_tools_have_an_undo(kind: Kind) -> None:
    registry = ToolRegistry()
    registry.tool(kind=kind, idempotent=True)(charge)
    registry.undoes(charge)(lambda: None)
    assert f"a {kind} tool has no undo; drop `<lambda>`, or make `charge` compensable" in only_problem(registry)


def test_a_retriable_tool_is_idempotent_or_has_a_probe() -> None:
    blind, probed = ToolRegistry(), ToolRegistry()
    blind.tool(kind="retriable")(charge)
    assert "a retriable tool cannot be repeated blindly; declare idempotent=True" in only_problem(blind)
    probed.tool(kind="retriable")(charge)
    probed.probes(charge)(lambda: None)
    assert probed.check() == []


def test_a_probe_returns_what_the_forward_action_returns() -> None:
    def find() -> int | None: ...

    registry = ToolRegistry()
    registry.tool(kind="pivot")(charge)
    untyped(registry.probes(charge))(find)
    assert "probe `find` returns int | None; return what `charge` returns, Charge, or None" in only_problem(registry)


def yes_or_no() -> bool:
    raise NotImplementedError


def yes_or_unknown() -> bool | None:
    raise NotImplementedError


@pytest.mark.parametrize("probe", [yes_or_no, yes_or_unknown])
@pytest.mark.parametrize("result", [int, float, str, int | None, Annotated[int, "cents"], dict[str, bool], None])
def test_a_probe_does_not_answer_yes_or_no(probe: Callable[[], Any], result: object) -> None:
    problem = only_problem(probed_by(probe, result))
    assert f"probe `{probe.__name__}` returns bool" in problem
    assert "return what `pay` returns" in problem


@pytest.mark.parametrize("result", [bool, bool | None, int | bool, object, Any])
def test_a_probe_may_return_the_bool_that_the_tool_returns(result: object) -> None:
    assert probed_by(yes_or_unknown, result).check() == []


def probed_by(probe: Callable[[], Any], result: object) -> ToolRegistry:
    def pay() -> None: ...

    pay.__annotations__["return"] = result
    registry = ToolRegistry()
    registry.tool(kind="pivot")(pay)
    untyped(registry.probes(pay))(probe)
    return registry


def test_a_probe_takes_no_undo() -> None:
    def find(undo: Undo[Charge]) -> None: ...

    registry = with_undo(lambda: None)
    untyped(registry.probes(charge))(find)
    assert "probe `find` takes an Undo, but none is running then; take a `Call`" in only_problem(registry)


def test_a_resource_that_is_no_text_is_a_problem() -> None:
    traits: dict[str, Any] = {"kind": "pivot", "resource": True}
    registry = ToolRegistry()
    registry.tool(**traits)(charge)
    assert "resource is True, and has to be a text" in only_problem(registry)


def test_a_tool_that_only_reads_holds_nothing() -> None:
    registry = ToolRegistry()
    registry.tool(kind="read_only", resource="desk")(charge)
    assert "resource is of a read_only tool, which holds nothing" in only_problem(registry)


def test_parameters_without_a_place_in_a_json_schema_are_refused() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def pay(first: int, /, *rest: int, **named: int) -> None: ...

    @registry.tool(kind="pivot")
    def save(saga__saga_id: str) -> None: ...

    said = [problem.message for problem in registry.check()]
    assert said == [
        "positional-only `first` has no place in a JSON Schema",
        "`*rest` has no place in a JSON Schema",
        "`**named` has no place in a JSON Schema",
        "parameter `saga__saga_id`: `saga__` is the server's own prefix",
    ]


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        ({"name": "pay-now"}, "its name is not 1 to 48 letters, digits and underscores"),
        ({"name": "p" * 49}, "its name is not 1 to 48 letters, digits and underscores"),
        ({"name": "saga_commit"}, "names that begin with `saga_` are the server's own"),
        ({"kind": "pivots"}, "kind is 'pivots', did you mean `pivot`?"),
        ({"error_means": "nothing"}, "error_means is 'nothing'"),
        ({"on_repeat": "rerun"}, "on_repeat is 'rerun', did you mean `run`?"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"hard_deadline_s": 3}, "hard_deadline_s is shorter than timeout_s"),
        ({"settle_s": -1}, "settle_s is -1"),
    ],
)
def test_a_trait_that_cannot_be_meant_is_refused(traits: dict[str, Any], said: str) -> None:
    registry = ToolRegistry()
    add(registry, charge, **traits)
    assert said in only_problem(registry)


@pytest.mark.parametrize(
    ("attempts", "first_delay_s", "max_delay_s"),
    [(0, 0.5, 20), (3, -1, 20), (3, 30, 20), (3, math.nan, 20), (3, 0.5, math.nan), (3, 0.5, math.inf)],
)
def test_a_retry_that_cannot_be_followed_is_refused_where_it_is_written(
    attempts: int, first_delay_s: float, max_delay_s: float
) -> None:
    with pytest.raises(ValueError, match=r"^Retry\(attempts=.* cannot be followed: use attempts >= 1 and 0 <= first_"):
        Retry(attempts, first_delay_s, max_delay_s)


def test_two_tools_or_two_undos_of_one_name_are_refused() -> None:
    registry = ToolRegistry()
    add(registry, charge)
    registry.tool(name="charge", kind="pivot")(only_problem)
    assert any("two tools have this name, the other at test_problems.py:" in str(found) for found in registry.check())

    def release(ip: str) -> None: ...

    parts = ToolRegistry()
    parts.part(release)
    parts.part(name_release())
    assert "release: two undos or parts have this name" in only_problem(parts)


def name_release() -> Callable[[], None]:
    def release() -> None: ...

    return release


def test_types_that_json_cannot_carry_are_refused_with_their_parameter() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def draw(canvas: Callable[[], None], card: list[SecretStr], size: int = cast("int", None)) -> threading.Lock:
        raise NotImplementedError(canvas, card, size)

    said = [str(problem) for problem in registry.check()]
    assert len(said) == 4
    assert "parameter `canvas` has no JSON Schema" in said[0]
    assert "`card` hides its value, so no undo could use it; use `str`" in said[1]
    assert "the default of `size` is no valid `int`" in said[2]
    assert "its return type" in said[3]


def test_a_part_is_checked_by_itself() -> None:
    registry = ToolRegistry()

    @registry.part
    def release(how: Callable[[], None]) -> None: ...

    assert "release: parameter `how` has no JSON Schema" in only_problem(registry)


def test_an_undo_of_a_tool_that_returns_nothing_says_so() -> None:
    def ping() -> None: ...

    def unping(undo: Undo[int]) -> None: ...

    registry = ToolRegistry()
    registry.tool(ping)
    untyped(registry.undoes(ping))(unping)
    assert "takes Undo[int], but `ping` returns None; annotate it `Undo[None]`" in only_problem(registry)


def test_types_are_compared_only_as_far_as_that_is_certain() -> None:
    def forward(
        ids: list[int], by_name: dict[str, int], one: Charge | int, extra: Extras, kind: Literal["a"]
    ) -> None: ...

    def fits(  # one of each
        ids: Sequence[int],
        by_name: dict[str, float],
        one: BaseModel | int,
        extra: Other,
        kind: str,
        undo: object,
    ) -> None: ...

    fits.__annotations__["undo"] = Undo  # bare: of any result

    def differs(ids: list[str], by_name: set[str], one: Charge) -> None: ...

    good, bad = ToolRegistry(), ToolRegistry()
    for registry, undo in ((good, fits), (bad, differs)):
        registry.tool(forward)
        untyped(registry.undoes(forward))(undo)
    assert good.check() == []
    assert [problem.message.split("`")[1] for problem in bad.check()] == ["ids", "by_name", "one"]


def test_an_annotation_that_cannot_be_resolved_is_a_problem_and_no_crash() -> None:
    registry = ToolRegistry()

    def pay(cents: int) -> None: ...

    pay.__annotations__["cents"] = "Cents"
    registry.tool(kind="pivot")(pay)
    assert "an annotation cannot be resolved: name 'Cents' is not defined" in only_problem(registry)


def test_a_function_without_a_readable_signature_is_a_problem_and_no_crash() -> None:
    registry = ToolRegistry()
    registry.tool(kind="pivot")(min)
    said = [problem.message for problem in registry.check()]
    assert said == ["its parameters cannot be read"]


def test_a_forward_action_takes_no_undo_and_no_second_call() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def pay(call: Call, again: Call, undo: Undo[None]) -> None: ...

    said = [problem.message for problem in registry.check()]
    assert said == ["a second parameter takes a Call: `again`", "`undo` takes an Undo, but this is the forward action"]


def test_a_part_takes_no_call_and_an_invariant_takes_the_results() -> None:
    registry = ToolRegistry()

    @registry.part
    def release(call: Call) -> None: ...

    @registry.invariant
    def always() -> None: ...

    @registry.invariant
    async def later(results: dict[str, object]) -> None: ...

    said = {problem.tool: problem.message for problem in registry.check()}
    assert said["release"] == "a part takes a Call, but it runs when the call is over"
    assert said["always"] == "an invariant takes the results of a saga"
    assert said["later"] == "an invariant is asked at once"
