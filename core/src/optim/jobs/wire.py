"""Typed values as JSON and back: between processes, in the cache, in lock files. pydantic does the work."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

T = TypeVar("T")


@cache
def adapter(cls: Any) -> TypeAdapter[Any]:
    """What reads values of a type; to make it takes some 10 ms, once for a process and all that are forked of it."""
    return TypeAdapter(cls)


def to_wire(value: object) -> Any:
    """Turns a dataclass, a pydantic model or a plain value into JSON values. Keeps NaN and infinity."""
    return to_jsonable_python(value)


def from_wire(cls: type[T], data: object) -> T:
    """Turns JSON values of ``to_wire`` into a value of type ``cls``.

    Raises:
        pydantic.ValidationError: the data does not fit.
    """
    kind: Any = cls
    result: T = adapter(kind).validate_python(data)
    return result
