"""Nearest neighbours by whole factors: told as repeats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from ort_models import apply, build, proto, random_weight, run

from optim import Model
from optim_plugins.ort.fuse.convolution.fuse_convolution import FuseConvolution

_FEEDS = {"x": random_weight(1, 3, 5, 6, seed=3)}
_HALF, _TORCH = "half_pixel", "pytorch_half_pixel"


def enlarged(folder: Path, *given: list[float] | list[int], **told: object) -> Model:
    """Two convolutions with a Resize between them, by factors or to sizes."""
    factors, *sizes = [np.array(one, np.int64 if number else np.float32) for number, one in enumerate(given)]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Resize", ["c", "", "factors", *(["sizes"] if sizes else [])], ["d"], name="larger", **told),
        helper.make_node("Conv", ["d", "v"], ["y"]),
    ]
    weights = {"w": random_weight(4, 3, 1, 1), "v": random_weight(2, 4, 1, 1, seed=1), "factors": factors}
    weights |= dict(zip(["sizes"], sizes, strict=False))
    return build(folder, nodes, weights, {"x": [1, 3, 5, 6]}, {"y": [1, 2, "h", "w"]}, opset=17)


def told_of(model: Model) -> dict[str, object]:
    """Attributes of the only Resize."""
    node = next(node for node in proto(model).graph.node if node.op_type == "Resize")
    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


@pytest.mark.parametrize("mode", [_HALF, _TORCH])
@pytest.mark.parametrize("rounded", ["round_prefer_floor", "round_prefer_ceil"])
def test_whole_factors_are_told_as_repeats(mode: str, rounded: str, tmp_path: Path) -> None:
    told = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounded}
    model = enlarged(tmp_path, [1, 1, 3, 4], **told)
    result = apply(FuseConvolution, model, tmp_path)
    assert result.counts == {"Resize as repeats": 1}
    found = told_of(result.model)
    assert (found["coordinate_transformation_mode"], found["nearest_mode"]) == (b"asymmetric", b"floor")
    np.testing.assert_array_equal(run(result.model, _FEEDS)["y"], run(model, _FEEDS)["y"])
    assert not apply(FuseConvolution, result.model, tmp_path).changed


def test_sizes_that_are_multiples_are_whole_factors(tmp_path: Path) -> None:
    model = enlarged(tmp_path, [], [1, 4, 10, 18], mode="nearest")
    result = apply(FuseConvolution, model, tmp_path)
    assert result.counts == {"Resize as repeats": 1}
    np.testing.assert_array_equal(run(result.model, _FEEDS)["y"], run(model, _FEEDS)["y"])


@pytest.mark.parametrize(
    ("factors", "told"),
    [
        ([1, 1, 1.5, 2], {}),
        ([1, 1, 0.5, 0.5], {}),
        ([1, 1, 2, 2], {"mode": "linear"}),
        ([1, 1, 4, 4], {"coordinate_transformation_mode": "asymmetric"}),
        ([1, 1, 2, 2], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    ],
)
def test_what_repeats_nothing_or_is_told_so_already_is_left_alone(
    factors: list[float], told: dict[str, object], tmp_path: Path
) -> None:
    assert not apply(FuseConvolution, enlarged(tmp_path, factors, **told), tmp_path).changed
