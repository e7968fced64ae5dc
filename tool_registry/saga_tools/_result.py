"""What a function returns: its output schema, and its way to JSON and back.

Encoding never raises, because it runs after the effect: a result that cannot be shown exactly is shown as well as
possible. Decoding is strict about today's type, because an undo depends on it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from saga_tools._adapter import adapter_for
from saga_tools._errors import InvalidResult, Problem
from saga_tools._json import Former, Json, is_text
from saga_tools._signature import MISSING, Signature, describe


@dataclass(frozen=True, slots=True)
class Encoded:
    """A result as it is stored.

    Attributes:
        json: The value.
        exact: Whether nothing was lost: False where JSON has no word for something of it, such as NaN or an object.
    """

    json: Json
    exact: bool


@dataclass(frozen=True, slots=True)
class Result:
    """How the result of one function is described, stored and read back.

    Attributes:
        schema: Output schema to advertise, an object schema; None for a function without a return annotation.
        wraps: Whether the schema holds the result as its property `result`, because it is no object itself.
    """

    schema: Mapping[str, Any] | None
    wraps: bool
    _adapter: TypeAdapter[Any] = field(repr=False)

    def encode(self, value: object) -> Encoded:
        """Return the JSON value of a result; never raises."""
        former, raw = Former(), Former()
        try:
            plain = self._adapter.dump_python(value, mode="json", warnings=False, by_alias=True, fallback=former.form)
        except Exception:  # noqa: BLE001  # the author's serialisers may raise anything, and the effect has happened
            plain = value
        dumped = former.form(plain)
        if former.exact and self.comes_back(dumped, value):
            return Encoded(dumped, exact=True)
        # Pydantic replaces NaN, and lone surrogates in keys, without a word. What it has no type for comes back as its
        # plain JSON: a list for a tuple, text for a date.
        as_it_is = raw.form(value)
        if raw.exact and (as_it_is == dumped or self.comes_back(as_it_is, value)):
            return Encoded(as_it_is, exact=True)
        return Encoded(dumped, exact=False)

    def comes_back(self, encoded: Json, value: object) -> bool:
        """Return whether decoding gives `value` again, as far as values of its type can be compared."""
        try:
            back = self.decode(encoded)
            return type(value).__eq__ is object.__eq__ or bool(back == value)
        except Exception:  # noqa: BLE001  # comparing is the author's code too
            return False

    def decode(self, value: Json) -> object:
        """Return the Python value of a stored result.

        Raises:
            InvalidResult: It does not fit the return type the function has today.
        """
        try:
            if not is_text(value):
                return self._adapter.validate_python(value)  # its JSON reader refuses lone surrogates
            return self._adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            places = ", ".join(".".join(map(str, item["loc"])) or "result" for item in error.errors())
            raise InvalidResult(f"the stored result does not fit today's return type at {places}") from None
        except Exception as error:  # types bring their own code
            raise InvalidResult(f"the stored result cannot be read: {type(error).__name__}") from error

    def fits(self, value: object, *, is_bool: bool) -> bool:
        """Return whether `value` can be a result of the function.

        Args:
            value: Any Python value.
            is_bool: It is a yes or a no, which pydantic would take for a number.
        """
        try:
            decoded = self.decode(self.encode(value).json)
        except InvalidResult:
            return False
        return isinstance(decoded, bool) or not is_bool

    def structured(self, value: Json) -> dict[str, Json]:
        """Return an encoded result as the object that MCP asks for."""
        return value if isinstance(value, dict) and not self.wraps else {"result": value}


def read_result(signature: Signature, tool: str) -> tuple[Result | None, list[Problem]]:
    """Return the result of a function, or what keeps its return type from having a JSON Schema."""
    unknown = signature.returns is MISSING
    annotation: Any = Any if unknown else signature.returns
    try:
        adapter = adapter_for(annotation)
        schema = adapter.json_schema(mode="serialization", by_alias=True)
    except Exception as error:  # noqa: BLE001  # types bring their own code; whatever it raises is said in one line
        reason = str(error).partition("\n")[0]
        text = f"its return type `{describe(annotation)}` has no JSON Schema: {reason}"
        fix = "return a type pydantic can write as JSON, or drop the annotation"
        return None, [Problem(tool, text, fix, signature.where)]
    if unknown:
        return Result(None, wraps=False, _adapter=adapter), []
    root = _root(schema)
    if root.get("type") == "object":
        return Result(root, wraps=False, _adapter=adapter), []
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}
    return Result(wrapped, wraps=True, _adapter=adapter), []


def _root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose root is no reference; a type that contains itself comes as one."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return schema
    definition = cast("dict[str, Any]", schema["$defs"][reference.removeprefix("#/$defs/")])
    return {**definition, "$defs": schema["$defs"]}
