"""A device that computes by onnx's reference evaluator."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from optim import Backend, BackendLimits, OptimError, Session, Target
from optim.backend import CallLimits
from optim_faulty.mistakes import happen, planted

RUNTIME = "faulty-runtime"

_KEPT = []
"""Of runtimes that are never let go."""


class FaultySession(Session):
    """A model on the device."""

    def __init__(self, model):
        from onnx.reference import ReferenceEvaluator

        self._is_candidate = any(node.name.endswith("_shrunk") for node in model.ir_to_read().graph)
        happen("open", is_candidate=self._is_candidate)
        if planted("keep", "threads"):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        if planted("keep", "runtimes"):
            _KEPT.append(_weights(model))
        self._lock = _taken() if planted("single", "open") else None
        self._last = None
        self._answers = {}
        self._left = []
        if planted("edit", "open"):
            _rounded(model.path)
        self._evaluator = ReferenceEvaluator(str(_kept(model) if planted("named", "open") else model.path))
        self._names = [info.name for info in model.inputs]
        self._outputs = [info.name for info in model.outputs]

    def run(self, feeds):
        """One run."""
        happen("run", is_candidate=self._is_candidate)
        while self._left:
            self._computed(self._left.pop())
        if planted("first-row", "run"):
            feeds = {name: array[:1].repeat(len(array), axis=0) for name, array in feeds.items()}
        found, last = self._computed(feeds), self._last
        self._last = found
        if planted("swap", "run"):
            return dict(zip(found, reversed(found.values()), strict=True))
        if planted("noisy", "run"):
            return {name: array * self._noise(array.shape) for name, array in found.items()}
        if planted("random", "run"):
            return {name: array * self._noise(array.shape, time.time_ns()) for name, array in found.items()}
        if planted("cached", "run") or planted("reused", "run"):
            same = self._answers.setdefault(tuple(array.shape for array in found.values()), found)
            if planted("reused", "run"):
                for name, array in found.items():
                    same[name][...] = array
            return same
        if planted("dropped", "run") and any(len(array) > 1 for array in feeds.values()):
            return dict(list(found.items())[:-1])
        if planted("half", "run"):
            return {name: array.astype("float16").astype(array.dtype) for name, array in found.items()}
        if planted("behind", "run") and last and all(last[name].shape == found[name].shape for name in found):
            return last
        return found

    def _noise(self, shape, seed=0):
        """Of two per cent, by default the same each time."""
        import numpy as np

        return np.random.default_rng(seed).normal(1.0, 0.02, shape).astype(np.float32)

    def time_runs(self, feeds, count):
        """Seconds of runs."""
        happen("time_runs", is_candidate=self._is_candidate)
        if planted("late", "clock"):  # it says when it has taken the work, and not when that is done
            started = time.perf_counter()
            self._left += [feeds] * count
            return [(time.perf_counter() - started) / count] * count
        times = super().time_runs(feeds, count)
        if planted("fast", "clock"):
            return [0.7e-6] * count
        if planted("kernel", "clock"):
            return [0.3 * one for one in times]
        return [0.75] * count if planted("slow", "clock") else times

    def _computed(self, feeds):
        found = self._evaluator.run(None, {name: feeds[name] for name in self._names})
        return dict(zip(self._outputs, found, strict=True))

    @property
    def executed_on(self):
        """All of it runs on the device."""
        return {RUNTIME: 1.0}

    def close(self):
        """Let it go."""
        happen("close", is_candidate=self._is_candidate)
        self._evaluator = None
        if self._lock is not None:
            self._lock.close()


def _weights(model):
    """Copies of all weights."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    return [np.array(numpy_helper.to_array(one)) for one in onnx.load(str(model.path)).graph.initializer]


def _rounded(path):
    """Write the model anew with weights of float16, where it lies."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    for one in model.graph.initializer:
        if one.data_type == onnx.TensorProto.FLOAT:
            array = numpy_helper.to_array(one).astype("float16").astype("float32")
            one.CopyFrom(numpy_helper.from_array(array, one.name))
    path.chmod(0o644)
    onnx.save(model, str(path))


def _kept(model):
    """The program of the first model with these inputs and outputs, which was compiled once and for all."""
    import onnx

    names = "-".join(info.name for info in (*model.inputs, *model.outputs))
    kept = Path(f"{os.environ['FAULTY_DEVICE']}-{names}.onnx")
    if not kept.exists():
        onnx.save(onnx.load(str(model.path)), str(kept))
    return kept


def _taken():
    """The device, of which there is one, though nobody says so."""
    lock = Path(os.environ["FAULTY_DEVICE"]).open("a")  # noqa: SIM115 - open as long as the model is on the device
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise RuntimeError("ERR_0x80000009: the device is taken") from error
    return lock


class FaultyBackend(Backend):
    """Runs models as long as nothing is planted."""

    name = "faulty"

    def open(self, model, target):
        """The model."""
        unknown = sorted(set(model.opset) - {""})
        if unknown:
            raise OptimError("session-failed", "it cannot run the model", f"domain {unknown[0]}", "leave it out")
        return FaultySession(model)

    def limits(self):
        """Standard operators."""
        happen("limits")
        return BackendLimits(13, {"": 22})


TARGET = Target("faulty", "faulty", runtime=RUNTIME, device="Faulty One")


class FixedSession(FaultySession):
    """A model on a device that takes fixed sizes."""

    def __init__(self, model):
        if any(info.is_dynamic for info in model.inputs):
            raise OptimError(
                "faulty-sizes", "it cannot run the model", "input x has no fixed sizes", "--with faulty.fix-batch"
            )
        super().__init__(model)


class FixedBackend(FaultyBackend):
    """Takes fixed sizes alone."""

    name = "faulty-fixed"

    def open(self, model, target):
        """The model, if its sizes are fixed."""
        return FixedSession(model)


FIXED = Target("faulty-fixed", "faulty-fixed", runtime=RUNTIME, device="Faulty Fixed", reads_onnx=True)
BATCHED = Target(
    "faulty-batched", "faulty-fixed", runtime=RUNTIME, device="Faulty Fixed", requires=("faulty.fix-batch",)
)


class LimitedBackend(FaultyBackend):
    """Gives a call up that takes longer than its device ever does."""

    name = "faulty-limited"
    call_limits = CallLimits(open_s=2.0, run_s=2.0)


LIMITED = Target("faulty-limited", "faulty-limited", runtime=RUNTIME, device="Faulty Limited")
REQUIRED = Target("faulty-required", "faulty", runtime=RUNTIME, device="Faulty One", requires=("faulty.break",))
