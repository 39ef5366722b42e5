"""A decoder's state stays where the session computes; a step brings its logits alone to the machine.

The device is a stand-in: a CPU session that says it is CUDA's, and notes where inputs and outputs are bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from optim_plugins.adapted.tensor_memory import TensorMemory
from optim_plugins.goals.decoders.decoder import SessionDecoder

VOCABULARY = 7


def counting_decoder(*, crossed: bool = False) -> bytes:
    """The next token is the sum of all tokens so far, of those of an encoder too, modulo the vocabulary."""
    value = helper.make_tensor_value_info
    seen = ["present.0.key", *(["past_key_values.0.cross"] if crossed else [])]
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["past_key_values.0.key", "floats"], ["present.0.key"], axis=1),
        helper.make_node("Concat", seen, ["all"], axis=1),
        helper.make_node("ReduceSum", ["all", "axes"], ["sum"], keepdims=1),
        helper.make_node("Mod", ["sum", "size"], ["next"], fmod=1),
        helper.make_node("Sub", ["next", "range"], ["distance"]),
        helper.make_node("Abs", ["distance"], ["far"]),
        helper.make_node("Neg", ["far"], ["logits"]),
    ]
    constants = {
        "axes": np.array([1], np.int64),
        "size": np.array([VOCABULARY], np.float32),
        "range": np.arange(VOCABULARY, dtype=np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "counting",
        [
            value("input_ids", TensorProto.INT64, ["batch", "sequence"]),
            value("past_key_values.0.key", TensorProto.FLOAT, ["batch", "past"]),
            *([value("past_key_values.0.cross", TensorProto.FLOAT, ["batch", "source"])] if crossed else []),
        ],
        [
            value("logits", TensorProto.FLOAT, ["batch", VOCABULARY]),
            value("present.0.key", TensorProto.FLOAT, ["batch", "total"]),
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return _encoded(graph)


def encoder() -> bytes:
    """Tokens as floats, under the name that the decoder takes them by."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Cast", ["input_ids"], ["present.0.cross"], to=TensorProto.FLOAT)],
        "encoder",
        [value("input_ids", TensorProto.INT64, ["batch", "source"])],
        [value("present.0.cross", TensorProto.FLOAT, ["batch", "source"])],
    )
    return _encoded(graph)


def _encoded(graph: onnx.GraphProto) -> bytes:
    encoded: bytes = helper.make_model(
        graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]
    ).SerializeToString()
    return encoded


class SaysCuda:
    """A session of the CPU that says it is one of GPU 1."""

    def __init__(self, model: bytes) -> None:
        self._session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.bound: list[tuple[str, str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get_providers(self) -> list[str]:
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {"CUDAExecutionProvider": {"device_id": "1"}}

    def io_binding(self) -> Any:
        return Noting(self._session.io_binding(), self.bound)

    def run_with_iobinding(self, binding: Noting) -> None:
        self._session.run_with_iobinding(binding.binding)


class Noting:
    """A binding to the CPU that notes what was asked for."""

    def __init__(self, binding: Any, bound: list[tuple[str, str, int]]) -> None:
        self.binding, self._bound = binding, bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self.binding, name)

    def bind_output(self, name: str, kind: str, index: int) -> None:
        self._bound.append((name, kind, index))
        self.binding.bind_output(name)


def test_the_state_is_left_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[tuple[str, int]] = []
    read: list[tuple[int, ...]] = []
    from_numpy, to_numpy = onnxruntime.OrtValue.ortvalue_from_numpy, onnxruntime.OrtValue.numpy

    def noted_put(array: np.ndarray, kind: str = "cpu", index: int = 0) -> Any:
        put.append((kind, index))
        return from_numpy(array)

    def noted_read(value: Any) -> np.ndarray:
        read.append(tuple(value.shape()))
        return to_numpy(value)

    monkeypatch.setattr(onnxruntime.OrtValue, "ortvalue_from_numpy", noted_put)
    monkeypatch.setattr(onnxruntime.OrtValue, "numpy", noted_read)
    session = SaysCuda(counting_decoder())
    tokens = SessionDecoder(session).generate([[1, 2], [3, 3]], max_new_tokens=3)  # type: ignore[arg-type]
    assert tokens.tolist() == [[3, 6, 5], [6, 5, 3]]
    assert set(put) == {("cuda", 1)} and len(put) == 1 + 3  # the empty state, and new tokens at each step
    assert set(session.bound) == {("logits", "cpu", 0), ("present.0.key", "cuda", 1)}
    assert read == [(2, VOCABULARY)] * 3


def test_what_an_encoder_computed_is_left_on_the_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from_numpy = onnxruntime.OrtValue.ortvalue_from_numpy
    monkeypatch.setattr(onnxruntime.OrtValue, "ortvalue_from_numpy", lambda array, *_: from_numpy(array))
    first, second = SaysCuda(encoder()), SaysCuda(counting_decoder(crossed=True))
    decoder = SessionDecoder(second, {"decoder_start": 1}, first)  # type: ignore[arg-type]
    assert decoder.generate([[2, 3]], max_new_tokens=3).tolist() == [[6, 5, 3]]
    assert first.bound == [("present.0.cross", "cuda", 1)]
    assert set(second.bound) == {("logits", "cpu", 0), ("present.0.key", "cuda", 1)}


def test_the_memory_of_a_cpu_session_is_that_of_the_machine() -> None:
    session = onnxruntime.InferenceSession(counting_decoder(), providers=["CPUExecutionProvider"])
    assert TensorMemory.of(session) == TensorMemory("cpu", 0)
    assert SessionDecoder(session).generate([[1, 2]], max_new_tokens=3).tolist() == [[3, 6, 5]]
