"""One way to run a model, for ``race.py``: opened, then a line of stdin is one run, and its seconds are printed.

    python benchmarks/table/contender.py '{"kind": "ort", "path": "model.onnx", "data": "x.npz"}'

Kinds: ``ort`` (onnxruntime's default), ``openvino`` (with ``properties``), ``folder`` (``load.py`` of a run folder),
``torch`` (``source`` of models/modules.py, with the options ``compile`` of torch.compile). The first line says that it
is open.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from samples import samples_of

_WARM = 3

Run = Callable[[dict[str, Any]], list[Any]]


def main() -> None:
    """Open it, and run it whenever asked."""
    asked = json.loads(sys.argv[1])
    samples, run = samples_of(asked["data"]), OPENED[asked["kind"]](asked)
    for _ in range(_WARM):
        run(samples[0])
    print("open", flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        run(samples[0])
        print(time.perf_counter() - began, flush=True)


def by_onnxruntime(asked: dict[str, Any]) -> Run:
    """Its default."""
    import onnxruntime

    session = onnxruntime.InferenceSession(asked["path"], providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}
    return lambda sample: list(session.run(None, {name: sample[name] for name in names}))


def by_openvino(asked: dict[str, Any]) -> Run:
    """With properties, for one run at a time."""
    import openvino

    properties = {"PERFORMANCE_HINT": "LATENCY", **asked.get("properties", {})}
    compiled = openvino.Core().compile_model(asked["path"], "CPU", properties)
    request, names = compiled.create_infer_request(), {name for port in compiled.inputs for name in port.get_names()}

    def run(sample: dict[str, Any]) -> list[Any]:
        found = request.infer({name: sample[name] for name in names & sample.keys()}, share_inputs=True)
        return [np.array(found[port]) for port in compiled.outputs]

    return run


def by_folder(asked: dict[str, Any]) -> Run:
    """As whoever deploys it opens it."""
    session = runpy.run_path(str(Path(asked["path"]) / "load.py"))["load"]()
    names = {one.name for one in session.get_inputs()}
    return lambda sample: list(session.run(None, {name: sample[name] for name in names}))


def by_torch(asked: dict[str, Any]) -> Run:
    """The module that the model was exported from, compiled."""
    sys.path.append(str(Path(__file__).resolve().parent / "models"))
    from modules import compiled

    run: Run = compiled(asked["source"], asked["compile"])
    return run


OPENED: dict[str, Callable[[dict[str, Any]], Run]] = {
    "ort": by_onnxruntime,
    "openvino": by_openvino,
    "folder": by_folder,
    "torch": by_torch,
}

if __name__ == "__main__":
    main()
