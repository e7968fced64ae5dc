"""One way to get from a type to pydantic: bytes as base64 in both directions, because UTF-8 would lose some."""

from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError

EXACT_BYTES = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


def adapter_for(annotation: type[Any]) -> TypeAdapter[Any]:
    """Return pydantic's view of a type.

    Raises:
        PydanticUserError: It has none.
    """
    try:
        return TypeAdapter(annotation, config=EXACT_BYTES)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(annotation)  # a model brings its own config
