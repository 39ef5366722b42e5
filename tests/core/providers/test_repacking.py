"""Weights that are large beside the memory are read where they are mapped, by the sessions of runs too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from optim.model import Model, SessionConfig
from optim.onnx.backend import OnnxRuntimeBackend
from optim.onnx.files import describe_model
from optim.onnx.sessions import PLAIN_CPU
from optim.providers import memory

SIZE = 64
BYTES = 4 * SIZE * SIZE


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A product whose weight lies in a file beside it."""
    path = tmp_path_factory.mktemp("product") / "model.onnx"
    weight = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    onnx.save(
        onnx.helper.make_model(
            onnx.helper.make_graph(
                [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
                "graph",
                [onnx.helper.make_tensor_value_info("x", 1, ["rows", SIZE])],
                [onnx.helper.make_tensor_value_info("y", 1, ["rows", SIZE])],
                [onnx.numpy_helper.from_array(weight, "w")],
            ),
            opset_imports=[onnx.helper.make_opsetid("", 17)],
            ir_version=8,
        ),
        path,
        save_as_external_data=True,
        size_threshold=0,
    )
    return describe_model(path)


def test_a_quarter_of_the_memory_is_the_line(product: Model) -> None:
    assert memory.weights_stay_mapped(product.path, memory_bytes=4 * BYTES - 1)
    assert not memory.weights_stay_mapped(product.path, memory_bytes=4 * BYTES)


def test_nothing_is_copied_that_takes_8_gb_with_what_else_a_process_holds(
    product: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST_COPIED", BYTES - 1)
    assert memory.weights_stay_mapped(product.path, memory_bytes=400 * BYTES)


def test_sessions_of_a_run_copy_no_weights_where_they_are_large(
    product: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry(model: Model = product) -> str:
        with OnnxRuntimeBackend().open(model, PLAIN_CPU) as session:
            options = session.inference_session.get_session_options()
            assert session.run({"x": np.ones((2, SIZE), np.float32)})["y"].shape == (2, SIZE)
        try:
            return str(options.get_session_config_entry("session.disable_prepacking"))
        except RuntimeError:  # nobody said anything of it
            return ""

    assert entry() == ""
    monkeypatch.setattr(memory, "usable_memory_bytes", lambda: BYTES)
    assert entry() == "1"
    asked = SessionConfig(session_config={"session.disable_prepacking": "0"})
    assert entry(product.with_session(asked)) == "0", "what somebody says of it counts"
    assert memory.mapped_config(product.path, replace(PLAIN_CPU, provider="CUDAExecutionProvider")) == {}
