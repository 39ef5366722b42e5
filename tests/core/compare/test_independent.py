"""A device is judged by another runtime than its own."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim import Backend, Target
from optim._engine.backends.held import needs_device_check
from optim._engine.compare.original import measure_variations
from optim._engine.compare.place import Reference
from optim._engine.feeds.feedset import FeedWriter
from optim._engine.jobs import check_device
from optim.errors import OptimError
from optim.onnx.backend import OnnxRuntimeBackend
from optim.onnx.files import describe_model

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((16, 8)).astype(np.float32)
SAMPLES = [{"x": RNG.standard_normal((4, 16)).astype(np.float32)} for _ in range(4)]
EXACT = Target("volt", "volt", runtime="volt-runtime")
COARSE = Target("volt", "volt", runtime="volt-runtime", exact=False)


def right(x):
    return {"y": x @ WEIGHT, "z": np.tanh(x @ WEIGHT)}


@pytest.fixture
def path(tmp_path):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in "yz"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Tanh", ["y"], ["z"])]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])
    graph = helper.make_graph(nodes, "g", [given], infos, [numpy_helper.from_array(WEIGHT, "w")])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx"
    )
    return tmp_path / "model.onnx"


def checked(path, outputs, target=EXACT, broken=False, within_s=60.0):
    """What is said of a device that computes these outputs."""
    return check_device.check_original(*asked(path, outputs, target, broken), within_s)


def asked(path, outputs, target=EXACT, broken=False):
    """The device, and the reference."""
    model = describe_model(path)
    for name, samples in (("feeds", SAMPLES), ("outputs", outputs)):
        with FeedWriter(path.parent / name) as writer:
            for sample in samples:
                writer.add(sample)
            writer.finish("made", ())
    reference = Reference(path.parent / "feeds", path.parent / "outputs", model, (0, 1, 2, 3))
    measure_variations(SimpleNamespace(run=None), reference)
    if broken:
        path.write_bytes(b"no model")
    return target, SimpleNamespace(name="volt", release="optim-plugin-volt 1.4.0"), reference


def test_a_right_device_is_said_to_be_right(path):
    found = checked(path, [right(one["x"]) for one in SAMPLES])
    assert (found.by, found.samples, found.reason) == ("onnxruntime on the CPU", 4, "")
    assert found.drift < 1e-4


def _swapped(x):
    return dict(zip("yz", reversed(right(x).values()), strict=True))


def _noisy(x):
    return {
        name: one * (1 + 0.02 * RNG.standard_normal(one.shape)).astype(np.float32) for name, one in right(x).items()
    }


def _in_float16(x):
    y = (x.astype(np.float16) @ WEIGHT.astype(np.float16)).astype(np.float32)
    return {"y": y, "z": np.tanh(y)}


@pytest.mark.parametrize("computes", [_swapped, _noisy, _in_float16])
def test_a_device_that_is_wrong_is_an_error(path, computes):
    with pytest.raises(OptimError) as caught:
        checked(path, [computes(one["x"]) for one in SAMPLES])
    assert caught.value.reference == "target-differs"
    assert "compared with onnxruntime on the CPU" in caught.value.cause


def test_a_device_that_is_one_answer_late_is_an_error(path):
    late = [SAMPLES[0], *SAMPLES[:-1]]
    with pytest.raises(OptimError):
        checked(path, [right(one["x"]) for one in late])


def test_a_target_that_says_it_rounds_may_round(path):
    found = checked(path, [_in_float16(one["x"]) for one in SAMPLES], COARSE)
    assert 1e-4 < found.drift < 1e-2
    with pytest.raises(OptimError, match="may drift by"):
        checked(path, [_swapped(one["x"]) for one in SAMPLES], COARSE)


@pytest.mark.parametrize(("run_s", "samples"), [(0.01, 4), (0.35, 2), (5.0, 1)])
def test_a_slow_runtime_computes_as_many_samples_as_end_within_its_time(path, monkeypatch, run_s, samples):
    clock = SimpleNamespace(now=0.0)

    def opened(path):
        def run(feeds):
            clock.now += run_s
            return right(feeds["x"])

        return run

    monkeypatch.setattr(check_device, "_onnxruntime", opened)
    question = asked(path, [right(one["x"]) for one in SAMPLES])
    monkeypatch.setattr(check_device.time, "perf_counter", lambda: clock.now)
    found = check_device.check_original(*question, 1.1)
    assert (found.samples, found.available) == (samples, 4)
    assert clock.now <= 1.1 or samples == 1


def test_where_no_runtime_takes_the_model_the_reason_is_kept(path):
    found = checked(path, [right(one["x"]) for one in SAMPLES], broken=True)
    assert not found.by
    assert "onnxruntime on the CPU: " in found.reason
    assert "ONNX's reference implementation: " in found.reason


class Named(OnnxRuntimeBackend):
    name = "named"


class Opens(Named):
    def open(self, model, target):
        return super().open(model, target)


class OpensReference(Named):
    def open_reference(self, model, target):
        return super().open(model, target)


class Says(Backend):
    opened_by_onnxruntime = True


class Holds(Backend):
    reference_only = True


def test_only_a_session_that_core_opens_on_the_cpu_needs_no_check():
    cpu = Target("cpu", "ort", "CPUExecutionProvider")
    assert not needs_device_check(Named, cpu)
    assert needs_device_check(Named, Target("cuda", "ort", "CUDAExecutionProvider"))
    assert all(needs_device_check(kind, cpu) for kind in (Opens, OpensReference, Says))
    assert not needs_device_check(Holds, cpu)  # nothing runs there
