"""Typed values as JSON and back: between processes, in the cache, in lock files. pydantic does the work."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def to_wire(value: object) -> Any:
    """JSON values of a dataclass, a pydantic model or a plain value; NaN and infinity are kept."""
    cls: Any = type(value)
    return _adapter(cls).dump_python(value, mode="json")


def from_wire(cls: type[T], data: object) -> T:
    """The value of type ``cls`` that :func:`to_wire` wrote.

    Raises:
        pydantic.ValidationError: the data does not fit.
    """
    kind: Any = cls
    result: T = _adapter(kind).validate_python(data)
    return result
