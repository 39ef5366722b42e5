"""``qnn.convert-float16``: the whole graph, on chips that have float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from qnn_models import OFFLINE, QNN, apply, build, images, on_htp, operators, relative_l2, run, run_on_htp, small_net

from optim import Target
from optim._engine.compare.place import mapped_feeds, mapped_outputs
from optim.onnx import model_size_bytes
from optim_qnn.precision.convert_float16 import ConvertFloat16
from optim_qnn.quantize.quantize import Quantize


def on(soc: str) -> Target:
    assert QNN.configure is not None
    return QNN.configure({"soc": soc})


@on_htp
def test_everything_between_two_casts_is_float16_on_htp(tmp_path: Path) -> None:
    model, feeds = small_net(tmp_path), images(1)[0]
    result = apply(ConvertFloat16, model, tmp_path)
    assert operators(result.model)[0] == operators(result.model)[-1] == "Cast"
    assert result.counts["Cast added"] == 2
    assert (result.model.inputs, result.model.outputs) == (model.inputs, model.outputs)
    kinds = {value.dtype.name for value in result.model.ir().graph.initializers.values()}
    assert kinds == {"FLOAT16"}
    assert model_size_bytes(result.model) < 0.8 * model_size_bytes(model)
    assert relative_l2(run(model, feeds), run_on_htp(result.model, feeds)) < 0.01


@on_htp
def test_inputs_and_outputs_too_where_that_is_asked_for(tmp_path: Path) -> None:
    model, feeds = small_net(tmp_path), images(1)[0]
    result = apply(ConvertFloat16, model, tmp_path, io=True)
    assert {info.dtype for info in (*result.model.inputs, *result.model.outputs)} == {"float16"}
    assert result.interface is not None
    through = (result.interface,)
    got = mapped_outputs(run_on_htp(result.model, mapped_feeds(feeds, through)), through)
    assert relative_l2(run(model, feeds), got) < 0.01


def test_constants_beyond_float16_are_brought_to_its_ends_and_told(tmp_path: Path) -> None:
    node = helper.make_node("Min", ["x", "w"], ["y"], name="m")
    model = build(tmp_path, [node], {"x": [2]}, {"y": [2]}, {"w": np.asarray([1e6, 1], np.float32)})
    result = apply(ConvertFloat16, model, tmp_path)
    assert "1 constants were beyond the range" in result.notes[0]
    feeds = {"x": np.asarray([5, 5], np.float32)}
    assert relative_l2(run(model, feeds), run(result.model, feeds)) == 0


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (on("sm8350"), "Snapdragon 888 (v68) computes integers only"),
        (Target("qnn", "qnn", "QNNExecutionProvider", timed=False), "float16 needs the chip"),
    ],
)
def test_a_chip_without_float16_and_no_chip_at_all_are_reasons_against_it(target, says, tmp_path: Path) -> None:
    answer = ConvertFloat16().applicable(small_net(tmp_path), target)
    assert not answer.yes
    assert says in answer.reason


def test_it_declines_what_is_quantized_and_what_has_no_floats(tmp_path: Path) -> None:
    done = apply(Quantize, small_net(tmp_path), tmp_path, images()).model
    assert "already" in ConvertFloat16().applicable(done, QNN).reason
    bare = build(tmp_path, [helper.make_node("Relu", ["x"], ["y"], name="r")], {"x": [1]}, {"y": [1]})
    assert "float32" in ConvertFloat16().applicable(bare, QNN).reason
    assert ConvertFloat16().applicable(small_net(tmp_path), OFFLINE).yes
