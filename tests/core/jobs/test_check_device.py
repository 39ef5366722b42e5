"""A runtime that checks a device: it costs a tenth of the run's time at most, and whatever it does ends no run."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sample_outcome import prepared

from optim import Target
from optim._engine.compare.original import measure_variations
from optim._engine.compare.place import Place, Reference
from optim._engine.feeds.feedset import FeedWriter
from optim._engine.jobs import check_device
from optim._engine.jobs.runner import Runner
from optim._engine.reports.schema import DeviceReport
from optim._engine.store import Store
from optim.onnx.files import describe_model
from optim_plugins.report.words import device_text

WITHOUT_END = 1 << 40


def model_of(path, rounds):
    """Write y = rounds * x, as so many sums: a vendor's compiler may know better than to run them."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    state = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("before", "after")]
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("go", "on")]
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    steps = [helper.make_node("Add", ["before", "x"], ["after"]), helper.make_node("Identity", ["go"], ["on"])]
    body = helper.make_graph(steps, "body", [number, flags[0], state[0]], [flags[1], state[1]])
    weights = [
        numpy_helper.from_array(np.array(rounds), "rounds"),
        numpy_helper.from_array(np.float32([0] * 4), "zero"),
    ]
    nodes = [helper.make_node("Loop", ["rounds", "", "zero"], ["y"], body=body)]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return describe_model(path)


@pytest.fixture
def checked(tmp_path):
    """What a run knows after a check of a device that computes this model, in a run with so many seconds."""

    def check(rounds, seconds):
        model = model_of(tmp_path / "model.onnx", rounds)
        folders = tmp_path / "feeds", tmp_path / "outputs"
        for folder, times in zip(folders, (1, rounds), strict=True):
            with FeedWriter(folder) as writer:
                for sample in range(8):
                    writer.add({"x" if folder == folders[0] else "y": np.float32([1, 2, 3, sample]) * times})
                writer.finish("made", ())
        measure_variations(SimpleNamespace(run=None), Reference(*folders, model, tuple(range(8))))
        target = Target("any", "ort", "AnyExecutionProvider")
        request = SimpleNamespace(
            place=Place(target, "ort"),
            feeds=folders[0],
            outputs=folders[1],
            model=model,
            within_s=seconds / 5,
            without=(),
        )
        runner = Runner(Store(tmp_path / "cache"), print)
        began = time.monotonic()
        found = check_device.with_device_checked(prepared(), request, runner, 60.0)
        return found, time.monotonic() - began

    return check


def test_a_quick_runtime_computes_every_sample(checked):
    found, _ = checked(3, 60.0)
    assert (found.device.by, found.device.samples, found.device.available) == ("onnxruntime on the CPU", 8, 8)
    assert not found.cut_short


def test_a_runtime_that_does_not_come_back_is_ended_and_the_run_goes_on_and_says_so(checked, monkeypatch):
    monkeypatch.setattr(check_device, "STARTING_S", 1.0)
    found, took_s = checked(WITHOUT_END, 15.0)
    assert 1.5 <= took_s < 30.0
    assert found.cut_short, "a run with more time checks again"
    assert (found.device.by, found.device.samples, found.device.available) == ("", 0, 8)
    assert "no independent runtime checked any: did not finish within 1.5 s" in found.notes[-1]


def test_the_report_says_that_fewer_samples_were_compared():
    some = DeviceReport(by="onnxruntime on the CPU", drift=1e-7, samples=3, available=8)
    assert device_text(some).endswith("from onnxruntime on the CPU, on 3 of 8 samples, because its time was over")
    assert device_text(some.model_copy(update={"samples": 8})).endswith("on 8 samples")
