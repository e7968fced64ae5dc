"""The parameters of a function as one pydantic model: its JSON Schema, and the one place where arguments are decoded.

What `decode` returns is what is logged, sent and used for the undo; nothing is interpreted a second time. JSON is read
strictly: `"1"` is no integer, `true` is no number, and integers keep all their digits. Only what the schema itself
admits in two forms, such as `1.0` for an integer, is brought into one.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from saga_tools._adapter import EXACT_BYTES, adapter_for
from saga_tools._docstring import Docstring
from saga_tools._errors import ArgumentProblem, InvalidArguments, Problem, did_you_mean
from saga_tools._json import Json, fit_to_schema, is_text
from saga_tools._signature import MISSING, Signature, describe


@dataclass(frozen=True, slots=True)
class Decoded:
    """The arguments of one call.

    Attributes:
        kwargs: Python values by parameter name, as the function is called with.
        json: The same as JSON, defaults included, as it is stored.
    """

    kwargs: Mapping[str, Any]
    json: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Arguments:
    """How the arguments of one function are described, decoded and stored.

    Attributes:
        names: The parameters, in order.
        schema: JSON Schema (2020-12) of the arguments; unknown ones are refused.
    """

    names: tuple[str, ...]
    schema: Mapping[str, Any]
    _model: type[BaseModel] = field(repr=False)

    def decode(self, arguments: Mapping[str, Any]) -> Decoded:
        """Decode what came over the wire.

        Raises:
            InvalidArguments: They do not fit; every reason is listed.
        """
        text = _json(arguments)
        try:
            instance = self._read(text)
        except InvalidArguments:
            text = _json(fit_to_schema(self.schema, dict(arguments)))
            instance = self._read(text)
        stored = self._dump(instance)
        # Read back at once: the function gets exactly what its undo will get, and what cannot be read back is not sent.
        if _json(stored) != text:
            instance = self._read(_json(stored))
        return Decoded(self._kwargs(instance), stored)

    def kwargs_from_json(self, stored: Mapping[str, Json], left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return the Python values for arguments that `decode` or `encode` made.

        Args:
            stored: The arguments.
            left_out: Names of those that were not stored; they are in what is returned neither.

        Raises:
            InvalidArguments: They do not fit the parameters the function has today.
        """
        if left_out:
            return self._without(left_out).kwargs_from_json(stored)
        if is_text(dict(stored)):
            return self._kwargs(self._read(_json(stored)))
        # A result may hold what no call over the wire brings: the name of a file that is no UTF-8, say.
        return self._kwargs(self._checked(lambda: self._model.model_validate(dict(stored))))

    def _without(self, left_out: frozenset[str]) -> "Arguments":
        names = tuple(name for name in self.names if name not in left_out)
        fields = [self._model.model_fields[_field_name(self.names.index(name))] for name in names]
        given: dict[str, Any] = {_field_name(place): (each.annotation, each) for place, each in enumerate(fields)}
        return Arguments(names, {}, create_model("Arguments", __config__=self._model.model_config, **given))

    def _kwargs(self, instance: BaseModel) -> dict[str, Any]:
        return {name: getattr(instance, _field_name(place)) for place, name in enumerate(self.names)}

    def encode(self, kwargs: Mapping[str, Any]) -> dict[str, Json]:
        """Return Python arguments as the JSON that is stored.

        Raises:
            InvalidArguments: They do not fit; every reason is listed.
        """
        try:
            return self._dump(self._model.model_validate(dict(kwargs), strict=True))
        except ValidationError as error:
            raise InvalidArguments(_problems(error, self.names)) from None

    def _read(self, text: str) -> BaseModel:
        return self._checked(lambda: self._model.model_validate_json(text, strict=True))

    def _checked(self, validate: Callable[[], BaseModel]) -> BaseModel:
        try:
            return validate()
        except ValidationError as error:
            raise InvalidArguments(_problems(error, self.names)) from None
        except Exception as error:  # types bring their own code; nothing has been sent yet
            raise InvalidArguments([ArgumentProblem("", f"cannot be read: {type(error).__name__}")]) from error

    def _dump(self, instance: BaseModel) -> dict[str, Json]:
        return instance.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)


def _json(arguments: Mapping[str, Any]) -> str:
    try:
        return json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments([ArgumentProblem("", f"must be JSON: {error}")]) from None


def read_arguments(signature: Signature, docstring: Docstring, tool: str) -> tuple[Arguments | None, list[Problem]]:
    """Return the arguments of a function, or what keeps them from having a JSON Schema."""
    fields: dict[str, Any] = {}
    problems: list[Problem] = []
    names = tuple(signature.parameters)
    for place, parameter in enumerate(signature.parameters.values()):
        annotation: Any = Any if parameter.annotation is MISSING else parameter.annotation
        default: Any = ... if parameter.default is MISSING else parameter.default
        if found := _parameter_problem(parameter.name, annotation, default):
            problems.append(Problem(tool, *found, signature.where))
            continue
        described = _described(annotation, parameter.name, docstring.parameters.get(parameter.name))
        fields[_field_name(place)] = (described, default)
    if problems:
        return None, problems
    config: ConfigDict = {**EXACT_BYTES, "extra": "forbid"}
    model = create_model("Arguments", __config__=config, **fields)
    schema = model.model_json_schema(by_alias=True, mode="validation")
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return Arguments(names, schema, model), problems


def _described(annotation: type[Any], name: str, described: str | None) -> Any:  # noqa: ANN401  # an annotation
    """Add what the schema says of a parameter: its name, and a title and description unless the author gave them.

    Fields have neutral names, with the parameters' as aliases: `copy` or `json` would shadow the model's own.
    """
    own = FieldInfo.from_annotation(annotation)
    title = own.title or name.replace("_", " ").strip().capitalize()
    return Annotated[annotation, Field(alias=name, title=title, description=own.description or described)]


def _field_name(place: int) -> str:
    return f"p{place}"


def _parameter_problem(name: str, annotation: type[Any], default: object) -> tuple[str, str] | None:
    """Return what is wrong with a parameter's type or default, and what to do; None where nothing is."""
    try:
        adapter = adapter_for(annotation)
        schema = adapter.json_schema()
    except Exception as error:  # noqa: BLE001  # types bring their own code; whatever it raises is said in one line
        reason = str(error).partition("\n")[0]
        return f"parameter `{name}` has no JSON Schema: {reason}", "use a type pydantic can read from JSON"
    if _holds(schema, "writeOnly"):  # pydantic's secret types are stored as asterisks
        return f"parameter `{name}` hides its value, so no undo could use it", "use `str`"
    if default is ... or isinstance(default, FieldInfo):
        return None
    try:
        adapter.validate_json(adapter.dump_json(default, warnings=False), strict=True)
    except ValueError:
        text = f"the default of `{name}` is no valid `{describe(annotation)}`"
        return text, "change the default or the annotation"
    return None


def _holds(schema: object, keyword: str) -> bool:
    if isinstance(schema, dict):
        members = cast("dict[str, object]", schema)
        return members.get(keyword) is True or any(_holds(member, keyword) for member in members.values())
    return isinstance(schema, list) and any(_holds(item, keyword) for item in cast("list[object]", schema))


def _problems(error: ValidationError, names: tuple[str, ...]) -> list[ArgumentProblem]:
    return [_problem(item["type"], item["loc"], item["msg"], names) for item in error.errors(include_input=False)]


def _problem(kind: str, loc: tuple[int | str, ...], message: str, names: tuple[str, ...]) -> ArgumentProblem:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")
    if kind == "missing":
        return ArgumentProblem(path, "is required")
    if kind == "extra_forbidden":
        return ArgumentProblem(path, f"is not an argument{did_you_mean(str(loc[-1]), names) if len(loc) == 1 else ''}")
    return ArgumentProblem(path, message[:1].lower() + message[1:])
