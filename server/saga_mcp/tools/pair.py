"""A pair as it is frozen at an intent: what the tool is, what undoes it, and under which limits (SEMANTICS.md S6.1).

Immutable and JSON through and through: its hash names the row that the log keeps for ever, so that an undo that runs
after an upgrade or a changed config is the undo that was promised. Python pairs and pairs from the config end in the
same shape; a Python undo's parameters are plain paths such as `${args.customer}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

from saga_mcp.domain.frozen import pair_name
from saga_mcp.domain.values import JsonObject, JsonValue, Kind, PartAction, Urgency
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.binding import TemplateError
from saga_tools import Retry
from saga_tools.server import UNDO_RETRY

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ONCE = Retry()


class KeyFormat(StrEnum):
    """How a step's key is written where a tool takes one: the same 128 bits each time."""

    BASE32 = "base32"
    HEX = "hex"
    UUID = "uuid"


MAX_BYTES = 1024 * 1024
"""Of what is read for a capture, unless the pair says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall:
    """A call of a read-only tool that a pair needs; `args` may hold `${...}` templates."""

    tool: str
    args: JsonObject = field(default_factory=dict[str, JsonValue])
    target_id: str = ""
    """Where `tool` acted when this was frozen (S1.2)."""
    rules: AnswerRules | None = None
    """How its answers were read then (S4.5); None: as they are today, for a function, or of an older version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A read that is kept, and what its answer means (S6.6); also the one that is made after the step."""

    call: ReadCall
    absent_when: str | bool = False
    exact_when: str | bool = True
    null_is_absent: bool = False
    """A result of null says that nothing is there: how Python captures say it."""
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is checked before an undo (S6.7): the capture once more, or a read of its own with two conditions."""

    call: ReadCall | None = None
    """None: the capture is made again, and compared."""
    as_left: str | bool = False
    """The world is as the step left it."""
    as_before: str | bool = False
    """The world is as it was before the step."""
    ignore_order: bool = False
    """Lists are compared as bags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A read that tells whether a forward action, or an undo, took effect."""

    call: ReadCall
    landed: str | bool
    result: JsonValue = None
    """Template for the forward action's result; None: the probe does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoEntry:
    """One entry of an undo list, before it is bound: `args`, `when`, `each`, `message` may hold `${...}` templates."""

    action: PartAction = PartAction.CALL
    tool: str = ""
    args: JsonObject = field(default_factory=dict[str, JsonValue])
    when: str | bool = True
    each: str = ""
    """An expression for a list: one part per element, which the arguments see as `item`."""
    message: str = ""
    urgency: Urgency = Urgency.NORMAL
    target_id: str = ""
    """Where `tool` acted when this was frozen (S1.2)."""
    rules: AnswerRules | None = None
    """As of a `ReadCall`."""
    schema: JsonObject | None = None
    """What `tool` took when this was frozen; None: not known, or a function, whose own types say it."""
    outlives_us: bool = False
    """Its call may go on where this process has ended."""
    idempotent: bool = False
    needs_result: bool = False
    """Never built without a known result, whatever its arguments name."""
    timeout_s: float = 30.0
    retry: Retry = UNDO_RETRY
    read: ReadCall | None = None
    """Made right before each attempt: the arguments see it as `read`."""
    probe: Probe | None = None
    """Tells whether an attempt of unknown outcome took effect (S6.4)."""
    done_when: str | bool = False
    """Of an attempt that answered with an error: it was undone already (S6.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a tool is for some of its calls."""

    when: str | bool
    pair: Pair


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One governed tool and everything that its steps will need later."""

    tool: str
    """Name in the config, e.g. `travel.charge`."""
    kind: Kind
    undo: tuple[UndoEntry, ...] = ()
    safe_if_absent: bool = False
    idempotent: bool = False
    has_probe: bool = False
    retry: Retry = _ONCE
    timeout_s: float = 30.0
    hard_deadline_s: float = 300.0
    settle_s: float = 5.0
    target_id: str = ""
    host: str = ""
    rules: AnswerRules | None = None
    """How the answers of `tool` are read; as of a `ReadCall`."""
    outlives_us: bool = False
    """Its calls may go on where this process has ended."""
    not_restored: str = ""
    """What its undo does not bring back, for whoever decides whether to call it."""
    capture: Capture | None = None
    after: Capture | None = None
    """Made after the step succeeded; its undo sees it as `after`."""
    guard: Guard | None = None
    probe: Probe | None = None
    """None with `has_probe`: the tool's adapter knows how to ask."""
    resource: str = ""
    """What it works on: no two calls with the same one at a time. Empty: the capture's tool and arguments (S5.3)."""
    approval: str | bool = False
    """Whether a person has to allow a call first: a condition over `args` (S9.1)."""
    key_arg: str = ""
    """The argument in which the step's key is sent."""
    key_format: KeyFormat = KeyFormat.BASE32
    force: JsonObject = field(default_factory=dict[str, JsonValue])
    """Arguments that the server sets and agents do not see."""
    secret: tuple[str, ...] = ()
    """Arguments that are shown to nobody."""
    sealed: tuple[str, ...] = ()
    """Those of them that nothing needs after the call: they are not stored, but for a call that a person is asked."""
    cases: tuple[Case, ...] = ()
    """What it is by its arguments. Empty for most tools, and in a row: the case that holds is what is frozen."""

    @property
    def undo_tools(self) -> frozenset[str]:
        """What its undos call, in all of its cases."""
        own = frozenset(entry.tool for entry in self.undo if entry.tool)
        return own.union(*(case.pair.undo_tools for case in self.cases))

    def to_json(self) -> JsonObject:
        """The content of the pair's row."""
        content = asdict(replace(self, cases=()))
        del content["cases"]
        return cast("JsonObject", content)

    @property
    def looks_after(self) -> bool:
        """Whether something is read right after the step succeeded: an after-image, or `after`."""
        return self.after is not None or (self.guard is not None and self.guard.call is None)

    @classmethod
    def of_row(cls, name: str, content: JsonObject | None) -> Self:
        """The pair of a row.

        What a newer version wrote is not read halfway: a key that is not known here could be what makes its undo safe.

        Args:
            name: the hash that names the row.
            content: what it holds; None: there is none of that name.

        Raises:
            PairUnreadable: it is not there, was changed, or was written by another version.
        """
        if content is None:
            raise PairUnreadable(f"pair {name} is not in the saga log any more: {_RESTORE}")
        if pair_name(content) != name:
            raise PairUnreadable(f"pair {name} was changed in the saga log: {_RESTORE}")
        try:
            return cls(**_known(cls, content, **_READERS))
        except (KeyError, TypeError, ValueError, TemplateError) as error:
            words = f"pair {name} cannot be read by this version of saga-mcp: {error}; upgrade it, then retry"
            raise PairUnreadable(words) from error

    @cached_property
    def hash(self) -> str:
        """Names the row: equal content, equal name."""
        return pair_name(self.to_json())


class PairUnreadable(Exception):
    """A frozen pair that cannot be read as it was stored: nothing may be sent for its steps. The text says why."""


_RESTORE = (
    "nothing is sent. Bring that row of saga_pair back from a backup, then retry; or undo the step by hand and say so "
    "(resolve --undone). `saga-mcp verify` names what else was changed"
)


_NEVER_STORED = frozenset({"cases"})


def _known(cls: type[DataclassInstance], content: object, **readers: Callable[[Any], object]) -> dict[str, Any]:
    """The fields of a dataclass; one that an older version did not write keeps its default."""
    data = cast("dict[str, Any]", content)
    if unknown := sorted(data.keys() - {each.name for each in fields(cls)} | data.keys() & _NEVER_STORED):
        raise ValueError(f"it does not know {', '.join(unknown)}")
    return {name: readers[name](value) if name in readers else value for name, value in data.items()}


def _retry(content: object) -> Retry:
    return Retry(**_known(Retry, content))


def _rules(content: object) -> AnswerRules | None:
    if content is None:
        return None
    rules = AnswerRules(**_known(AnswerRules, content))
    rules.compiled()  # what a newer version's expression asks is not known here either
    return rules


def _call(content: object) -> ReadCall | None:
    return None if content is None else ReadCall(**_known(ReadCall, content, rules=_rules))


def _capture(content: object) -> Capture | None:
    return None if content is None else Capture(**_known(Capture, content, call=_call))


def _guard(content: object) -> Guard | None:
    return None if content is None else Guard(**_known(Guard, content, call=_call))


def _probe(content: object) -> Probe | None:
    return None if content is None else Probe(**_known(Probe, content, call=_call))


def _entries(content: list[object]) -> tuple[UndoEntry, ...]:
    read = {
        "action": PartAction,
        "urgency": Urgency,
        "retry": _retry,
        "rules": _rules,
        "read": _call,
        "probe": _probe,
    }
    return tuple(UndoEntry(**_known(UndoEntry, entry, **read)) for entry in content)


_READERS: dict[str, Callable[[Any], object]] = {
    "kind": Kind,
    "retry": _retry,
    "rules": _rules,
    "undo": _entries,
    "capture": _capture,
    "after": _capture,
    "guard": _guard,
    "probe": _probe,
    "key_format": KeyFormat,
    "secret": tuple,
    "sealed": tuple,
}
"""How the fields of a pair are read back that are no plain JSON; `cases` is in no row."""
