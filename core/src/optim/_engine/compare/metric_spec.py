"""What a user wrote after ``--metric`` and ``--max-loss``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim._engine.plugins.registry import Registry

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric by its name.

    Attributes:
        name: of a plugin's, or ``package.module:function``.
        options: JSON values.
        plugin: that offers it, where one does.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""

    @property
    def text(self) -> str:
        """As a user writes it."""
        import json

        options = ",".join(f"{key}={json.dumps(value)}" for key, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name

    @property
    def is_function(self) -> bool:
        """Whether the user named a function."""
        return bool(_FUNCTION.fullmatch(self.name))


def parse_metric(text: str) -> MetricSpec:
    """``NAME``, ``NAME:k=v,...`` with TOML values, ``package.module:function``, or that with ``:k=v,...``.

    Raises:
        OptimError[bad-option]: the options are no TOML.
    """
    import tomllib

    function = _FUNCTION.match(text)
    if function and text[function.end() :][:1] in ("", ":"):
        name, options = function.group(), text[function.end() + 1 :]
    else:
        name, _, options = text.partition(":")
    if not options:
        return MetricSpec(name)
    try:
        return MetricSpec(name, tomllib.loads(f"options = {{{options}}}")["options"])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptimError(
            "bad-option",
            f"cannot read the options of {name}",
            f"{options}: {error}",
            f"values are TOML: --metric \"{name}:output='logits'\"",
            status=ExitStatus.USAGE,
        ) from error


def require_known(spec: MetricSpec, registry: Registry) -> MetricSpec:
    """The metric with the plugin that offers it.

    Raises:
        OptimError: those of :meth:`Registry.offer`.
    """
    if spec.is_function:
        return spec
    return replace(spec, plugin=registry.offer("metric", spec.name).plugin.name)


@dataclass(frozen=True, slots=True)
class MaxLoss:
    """How much worse the metric may get.

    Attributes:
        amount: in the metric's own unit, or a share of the original's value; positive or 0.
        relative: whether it is a share.
    """

    amount: float
    relative: bool

    @property
    def text(self) -> str:
        """As a user writes it."""
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"

    def allowed(self, original: float) -> float:
        """The largest loss in the metric's own unit, given the original's value."""
        return self.amount * abs(original) if self.relative else self.amount


def parse_max_loss(text: str) -> MaxLoss:
    """``1%`` of the original's value, or an amount in the metric's own unit.

    Raises:
        OptimError[bad-budget]: it is neither.
    """
    words = text.strip()
    relative = words.endswith("%")
    try:
        amount = float(words.removesuffix("%")) / (100 if relative else 1)
    except ValueError:
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise OptimError(
            "bad-budget",
            f"--max-loss {text} is no amount",
            "it is a share of the metric's value on the original, as 1%, or an amount in its own unit, as 0.01",
            "--max-loss 1%",
            status=ExitStatus.USAGE,
        )
    return MaxLoss(amount, relative)
