"""The options of a pass or a metric as a table; the only listing that builds their pydantic class."""

from __future__ import annotations

import inspect
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import OptimError, describe_exception

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from optim._engine.plugins.plugin import PluginInfo
    from optim.metric import MetricFamily
    from optim.source_passes import AnyPass

_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "multiple_of": "multiple of"}


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One option; ``default`` is a JSON value, and None where the option must be given."""

    name: str
    type: str
    default: Any
    required: bool
    description: str


def describe_options(owner: AnyPass | MetricFamily, plugin: PluginInfo) -> list[OptionRow]:
    """The options of a pass or a metric of a plugin, in the order of their class.

    Raises:
        OptimError[plugin-failed]: the options class cannot be loaded; its plugin is at fault.
    """
    from optim.options import options_class

    try:
        return [_row(name, field) for name, field in options_class(owner).model_fields.items()]
    except Exception as error:
        raise OptimError.usage(
            "plugin-failed",
            f"the options of {owner.name} cannot be loaded",
            f"{owner.options}: {describe_exception(error)}",
            f"optim plugins show {plugin.name}",
            plugin.release,
        ) from error


def _row(name: str, field: FieldInfo) -> OptionRow:
    from pydantic_core import to_jsonable_python

    required = field.is_required()
    default = None if required else to_jsonable_python(field.get_default(call_default_factory=True), fallback=str)
    return OptionRow(name, _type(field), default, required, " ".join((field.description or "").split()))


def _type(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(limit, key)}"
        for limit in field.metadata
        for key, sign in _BOUNDS.items()
        if getattr(limit, key, None) is not None
    ]
    return f"{_type_text(field.annotation)} {', '.join(bounds)}".rstrip()


def _type_text(annotation: Any) -> str:
    """A type as a user writes values of it, the same with every Python: ``bool or 'saturating'``, ``list of str``."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in (type(None), Any):
        return "anything" if annotation is Any else "left out"
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_type_text, inner))
    if origin is typing.Annotated:
        return _type_text(inner[0])
    if origin is dict:
        return f"table of {_type_text(inner[1])}"
    if origin is list or (origin is tuple and inner[-1] is Ellipsis):
        return f"list of {_type_text(inner[0])}"
    if origin is tuple:
        return f"list of {', '.join(map(_type_text, inner))}"
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation).replace("typing.", "")
