"""A model that onnxruntime's own quantizers have been at: passes do what there is to do, and say what there is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import CPU, context, random_weight, relative_l2, stored

from optim import Model, Pass
from optim._engine.plugins.registry import load_registry
from optim.options import options_class
from optim.passes import MODEL_STAGES

QUANTIZE = ("ort.quantize-dynamic", "ort.quantize-static", "ort.quantize-weights")
FEEDS = {"x": np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)}


def _quantized(how: str, folder: Path) -> Model:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.samples = iter([FEEDS])

        def get_next(self) -> object:
            return next(self.samples, None)

    value = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(random_weight(64, 96), "w"), numpy_helper.from_array(random_weight(96, 64), "v")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["kept"]),
        helper.make_node("MatMul", ["kept", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "two", [value("x", TensorProto.FLOAT, ["n", 64])], [value("y", TensorProto.FLOAT, ["n", 64])], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    plain, path = folder / "plain.onnx", folder / "quantized.onnx"
    onnx.save(model, plain)
    if how == "dynamic":
        quantize_dynamic(plain, path)
    else:
        quantize_static(plain, path, Reader(), quant_format=QuantFormat[how])
    return stored(path, folder)


@pytest.mark.parametrize("how", ["QDQ", "QOperator", "dynamic"])
def test_every_pass_works_on_a_quantized_model_or_says_why_not(how: str, tmp_path: Path) -> None:
    model = _quantized(how, tmp_path)
    registry = load_registry(only=["ort"])
    offers = [offered for offered in registry.offers(CPU) if offered.stage in MODEL_STAGES]
    for offered in offers:
        transformation: Pass = offered.over_models()
        said = transformation.applicable(model, CPU)
        assert said.yes or said.reason, offered.name
        if offered.name in QUANTIZE:
            assert not said.yes
            assert "the model is quantized already" in said.reason
        elif said.yes:
            options = options_class(offered.over_models)()
            result = transformation.apply(model, options, context(tmp_path, [FEEDS]))
            assert result.notes or result.changed, offered.name
            assert relative_l2(model, result.model, FEEDS) < (0.05 if offered.over_models.lossy else 0.02), offered.name
