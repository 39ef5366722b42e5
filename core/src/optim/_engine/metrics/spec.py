"""What a user wrote after ``--metric`` and ``--max-loss``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optim.errors import ExitStatus, OptimError, unknown_name

BUILT_IN = {
    "top-1": ("optim._engine.metrics.classification:top_1", "share of labels that have the highest score"),
    "top-k": ("optim._engine.metrics.classification:top_k", "share of labels among the k highest scores"),
    "f1": ("optim._engine.metrics.classification:f1", "F1 of classes: macro, micro or binary"),
    "cosine": ("optim._engine.metrics.embeddings:cosine", "cosine of embeddings with the original's; needs no labels"),
    "perplexity": (
        "optim._engine.metrics.decoders:perplexity",
        "of a language model; without labels, of the next input ids",
    ),
    "token-agreement": ("optim._engine.metrics.decoders:token_agreement", "share of tokens that stay the original's"),
    "mean-iou": ("optim._engine.metrics.segmentation:mean_iou", "intersection over union of segments"),
    "wer": ("optim._engine.metrics.transcripts:wer", "word error rate, by jiwer (pip install 'optim-core[wer]')"),
}
"""Where each built-in metric is made, and what it is."""

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric by its name.

    Attributes:
        name: of a built-in one, of a plugin's, or ``package.module:function``.
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
    if function and text.partition(":")[0] not in BUILT_IN and text[function.end() :][:1] in ("", ":"):
        name, options = function.group(), text[function.end() + 1 :]
    else:
        name, _, options = text.partition(":")
    if not options:
        return MetricSpec(name)
    try:
        return MetricSpec(name, tomllib.loads(f"options = {{{options}}}")["options"])
    except tomllib.TOMLDecodeError as error:
        raise OptimError(
            "bad-option",
            f"cannot read the options of {name}",
            f"{options}: {error}",
            f"values are TOML: --metric \"{name}:output='logits'\"",
            status=ExitStatus.USAGE,
        ) from error


def require_known(spec: MetricSpec, plugins: Mapping[str, str]) -> MetricSpec:
    """The metric with the plugin that offers it; built-in ones go first.

    Args:
        spec: what the user wrote.
        plugins: names of the plugins' metrics, with the plugin of each.

    Raises:
        OptimError[unknown-metric]: nobody offers it; lists the near ones.
    """
    if spec.name in BUILT_IN or spec.is_function:
        return spec
    if spec.name in plugins:
        return MetricSpec(spec.name, spec.options, plugins[spec.name])
    raise unknown_name("metric", spec.name, [*BUILT_IN, *plugins], fix="optim metrics; or package.module:function")


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
