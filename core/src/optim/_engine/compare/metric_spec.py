"""What a user wrote after ``--metric`` and ``--max-loss``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from optim.errors import OptimError
from optim.user_code import FUNCTION_NAME

if TYPE_CHECKING:
    from optim._engine.plugins.registry import Registry


IN_PYTHON = " (in Python)"
"""Ends the name of a function of the calling program; nothing else is called so."""


@dataclass(frozen=True, slots=True)
class CallingProgram:
    """Where jobs reach the program whose function is the metric.

    Attributes:
        key: that both sides must know, hex.
        counts: whether the function counts, and another makes the value of the sums.
        compares: as :attr:`optim.Metric.compares`.
        needs_labels: whether a sample without labels cannot be judged.
    """

    address: str
    key: str
    higher_is_better: bool = True
    counts: bool = False
    compares: Literal["labels", "original"] = "labels"
    needs_labels: bool = False


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric by its name.

    Attributes:
        name: of a plugin's, or ``package.module:function``; of a function of the calling program, with
            :data:`IN_PYTHON` behind it.
        options: JSON values.
        plugin: that offers it, where one does.
        program: that has the function, where it is one of the calling program.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""
    program: CallingProgram | None = None

    @property
    def text(self) -> str:
        """As a user writes it."""
        import json

        options = ",".join(f"{key}={json.dumps(value)}" for key, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name

    @property
    def is_function(self) -> bool:
        """Whether it is a function that optim does not know; it may return something else next time."""
        return self.in_python or self.names_code

    @property
    def names_code(self) -> bool:
        """Whether measuring it imports a module that the user named."""
        return bool(FUNCTION_NAME.fullmatch(self.name))

    @property
    def in_python(self) -> bool:
        """Whether it is a function of the calling program, which alone has it."""
        return self.name.endswith(IN_PYTHON)


def parse_metric(text: str) -> MetricSpec:
    """``NAME``, ``NAME:k=v,...`` with TOML values, ``package.module:function``, or that with ``:k=v,...``.

    Raises:
        OptimError[bad-option]: the options are no TOML.
    """
    function = FUNCTION_NAME.match(text)
    if function and text[function.end() :][:1] in ("", ":"):
        name, options = function.group(), text[function.end() + 1 :]
    else:
        name, _, options = text.partition(":")
    if not options:
        return MetricSpec(name)
    from optim.options import written_options

    return MetricSpec(name, written_options(name, options, example=f"--metric \"{name}:output='logits'\""))


def require_known(spec: MetricSpec, registry: Registry) -> MetricSpec:
    """The metric with the plugin that offers it.

    Raises:
        OptimError[unknown-metric]: it was a function of a program, and is not there any more.
        OptimError: those of :meth:`Registry.offer`.
    """
    if spec.in_python and spec.program is None:
        raise OptimError.usage(
            "unknown-metric",
            f"metric {spec.name} does not exist any more",
            "it was a function of the program that made the lock",
            "pass it again: optim.run(model, recipe='recipe.lock.toml', metric=function)",
        )
    if spec.is_function:
        return spec
    return replace(spec, plugin=registry.offer("metric", spec.name).plugin.name)
