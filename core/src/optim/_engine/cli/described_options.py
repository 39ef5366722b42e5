"""The options of a pass or a metric as a table; the only listing that builds their pydantic class."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import OptimError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from optim._engine.plugins.plugin import PluginInfo
    from optim.metric import MetricFamily
    from optim.options import PassOptions
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

    def as_fields(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def describe_options(owner: AnyPass | MetricFamily, plugin: PluginInfo) -> list[OptionRow]:
    """The options of a pass or a metric of a plugin, in the order of their class.

    Raises:
        OptimError[plugin-failed]: the options class cannot be loaded; its plugin is at fault.
    """
    cls = _options_class(owner, plugin)
    return [_row(name, field) for name, field in cls.model_fields.items()]


def _options_class(owner: AnyPass | MetricFamily, plugin: PluginInfo) -> type[PassOptions]:
    from optim.errors import describe_exception
    from optim.options import options_class

    try:
        return options_class(owner)
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
    annotation = field.annotation
    plain = inspect.isclass(annotation) and not getattr(annotation, "__args__", None)
    name = annotation.__name__ if plain and annotation is not None else str(annotation).replace("typing.", "")
    bounds = [
        f"{sign} {getattr(limit, key)}"
        for limit in field.metadata
        for key, sign in _BOUNDS.items()
        if getattr(limit, key, None) is not None
    ]
    return f"{name} {', '.join(bounds)}".rstrip()
