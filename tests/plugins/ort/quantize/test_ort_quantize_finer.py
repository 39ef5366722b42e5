"""``ort.quantize-dynamic`` with activations of 16 bits: for all products, and for single ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper
from ort_models import apply, build, names_and_shapes, operators, random_weight, relative_l2
from rounding import narrowed

from optim import Model
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.smoothing import FINER_STRENGTH

_OUTLIERS = {"x": random_weight(32, 64) * np.where(np.arange(64) == 3, 60, 1).astype(np.float32)}
"""One channel far beyond the others, which 8 bits for all leave little to."""


def _three(folder: Path) -> Model:
    """Two products of one input, and one of what the second gives."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        helper.make_node("MatMul", ["x", "v"], ["q"], name="two"),
        helper.make_node("Add", ["q", "b"], ["r"]),
        helper.make_node("MatMul", ["r", "u"], ["s"], name="three"),
        helper.make_node("Add", ["p", "s"], ["y"]),
    ]
    weights = {name: random_weight(64, 64, seed=place) for place, name in enumerate("wvu")}
    weights = {name: array / np.float32(8) for name, array in weights.items()} | {"b": random_weight(64)}
    weights["w"][3] = weights["v"][3] = 0.01
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 64]})


def test_sixteen_bits_of_activations_leave_the_error_of_the_weights(tmp_path: Path) -> None:
    model = _three(tmp_path)
    coarse = apply(QuantizeDynamic, model, tmp_path)
    fine = apply(QuantizeDynamic, model, tmp_path, activation_bits=16)
    assert fine.counts == {"products quantized": 3, "products kept": 0, "with 16-bit activations": 3, **narrowed(3)}
    assert 1e-4 < relative_l2(model, fine.model, _OUTLIERS) < relative_l2(model, coarse.model, _OUTLIERS) / 3
    assert names_and_shapes(fine.model) == names_and_shapes(model)
    found = operators(fine.model)
    assert found.count("MatMulIntegerToFloat") == 6
    assert found.count("DynamicQuantizeLinear") == 4, "products of one input share what is quantized of it"


def test_single_nodes_get_sixteen_bits(tmp_path: Path) -> None:
    model = _three(tmp_path)
    result = apply(QuantizeDynamic, model, tmp_path, finer=("two", "three", "four"), keep=("three",))
    assert result.counts == {"products quantized": 2, "products kept": 1, "with 16-bit activations": 1, **narrowed(2)}
    assert result.notes == ("keep names no quantizable node: four",)
    found = operators(result.model)
    assert found.count("MatMulIntegerToFloat") == 3
    assert found.count("MatMul") == 1
    coarse = apply(QuantizeDynamic, model, tmp_path, keep=("three",))
    assert relative_l2(model, result.model, _OUTLIERS) < relative_l2(model, coarse.model, _OUTLIERS)


def test_what_only_sixteen_bits_read_is_smoothed_less(tmp_path: Path) -> None:
    model, samples, all_of_them = _three(tmp_path), [_OUTLIERS], ("one", "two", "three")
    finer = apply(QuantizeDynamic, model, tmp_path, samples, smoothing=0.8, finer=all_of_them)
    weak = apply(QuantizeDynamic, model, tmp_path, samples, smoothing=FINER_STRENGTH, finer=all_of_them)
    asked = apply(QuantizeDynamic, model, tmp_path, samples, smoothing=0.8, activation_bits=16)
    shared = apply(QuantizeDynamic, model, tmp_path, samples, smoothing=0.8, finer=("one",))
    assert finer.model.digest == weak.model.digest
    assert _smoothing_of("x", finer.model) < _smoothing_of("x", asked.model)
    assert _smoothing_of("x", shared.model) == _smoothing_of("x", asked.model), "the product of 8 bits needs it"


def _smoothing_of(name: str, model: Model) -> float:
    """The largest of an input's factors to the least."""
    found = model.ir().graph.initializers[f"{name}_smoothing"].const_value
    assert found is not None
    return float(found.numpy().max() / found.numpy().min())
