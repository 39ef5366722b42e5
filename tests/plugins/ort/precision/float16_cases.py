"""Small models, and what ``ort.convert-float16`` makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ort_models import build, context, proto, random_weight

from optim import Model, PassResult
from optim.options import parse_options
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16

FEEDS = {"x": random_weight(7, 64, seed=9)}
CLOSE = 3e-3
"""Drift of a few layers of normal numbers in float16, whose relative rounding error is 5e-4."""


def layers(folder: Path, nodes: list[Any], weights: Mapping[str, Any], outputs: int = 64, **options: Any) -> Model:
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", outputs]}, **options)


def converted(model: Model, folder: Path, feeds: Mapping[str, Any] | None = None, **options: Any) -> PassResult:
    """With samples to measure ranges on."""

    def samples() -> Iterator[Mapping[str, Any]]:
        return iter([feeds or FEEDS])

    asked = replace(context(folder), samples=samples)
    return ConvertFloat16().apply(model, parse_options(ConvertFloat16, options), asked)


def types_of(model: Model) -> dict[str, int]:
    return {value.name: value.type.tensor_type.elem_type for value in proto(model).graph.value_info}


def weights_of(model: Model) -> dict[str, Any]:
    return {value.name: value for value in proto(model).graph.initializer}
