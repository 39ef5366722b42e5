"""The text of a run folder's ``load.py``: the model opened by OpenVINO alone, with onnxruntime's way to call it."""

from __future__ import annotations

from optim_openvino.runtime.properties import DEFAULTS, DEVICE, MODEL_CACHE, RUNTIME

_TEXT = '''\
"""Opens model.onnx with the settings of session.json. Needs openvino and numpy alone."""

import json
from collections import namedtuple
from pathlib import Path

import numpy as np
import openvino

DEFAULTS = {defaults}
Value = namedtuple("Value", "name type shape")
TYPES = {{"float32": "float", "float64": "double"}}


class Session:
    """A compiled model, called as an onnxruntime.InferenceSession is."""

    def __init__(self, compiled):
        self.compiled = compiled
        self.request = compiled.create_infer_request()
        self.inputs = [value(port) for port in compiled.inputs]  # asked once: that takes longer than a short run
        self.outputs = [value(port) for port in compiled.outputs]
        self.names = {{name_of(port): port.get_names() for port in compiled.inputs}}
        self.taken = set().union(*self.names.values())
        self.places = {{name: place for place, port in enumerate(compiled.outputs) for name in port.get_names()}}

    def run(self, output_names, feeds):
        """One run: arrays by name in, arrays in the order of output_names out; None: all of them."""
        given = {{name: np.asarray(array) for name, array in feeds.items() if name in self.taken}}
        if len(given) < len(self.names):  # OpenVINO would take empty arrays
            missing = [name for name, known in self.names.items() if not known & given.keys()]
            raise ValueError(f"nothing is given for the inputs {{missing}}")
        if strange := set(output_names or ()) - self.places.keys():
            raise ValueError(f"no output {{sorted(strange)}}, only {{[one.name for one in self.outputs]}}")
        found = self.request.infer(given, share_inputs=True).to_tuple()
        return list(found) if output_names is None else [found[self.places[name]] for name in output_names]

    def get_inputs(self):
        """Name, type and shape of what a run is fed."""
        return self.inputs

    def get_outputs(self):
        """Name, type and shape of what a run returns."""
        return self.outputs


def name_of(port):
    """What model.onnx calls an input or output; OpenVINO has the names of nodes that it left out too."""
    name = port.node.friendly_name.rpartition("/sink_port_")[0] or port.node.friendly_name
    return name if name in port.get_names() else port.any_name


def value(port):
    """An input or output, as onnxruntime describes it."""
    kind = port.element_type.to_dtype().name
    shape = [None if size.is_dynamic else size.get_length() for size in port.partial_shape]
    return Value(name_of(port), f"tensor({{TYPES.get(kind, kind)}})", shape)


def load():
    """A Session."""
    folder = Path(__file__).resolve().parent
    saved = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    tuned = saved.get("tuned_provider_options", {{}}).get("{runtime}", {{}})
    chosen = {{**DEFAULTS, **saved["provider_options"], **tuned}}
    device = chosen.pop("{device}", "CPU")
    if chosen.pop("{cache}", "NO") == "YES":  # OpenVINO makes it anew where it is of another version or machine
        chosen["CACHE_DIR"] = str(folder / "compiled")
    core = openvino.Core()
    return Session(core.compile_model(core.read_model(folder / "model.onnx"), device, chosen))


if __name__ == "__main__":
    for one in load().get_inputs():
        print(one.name, one.type, one.shape)
'''


def load_script() -> str:
    """The script; all that is particular to a model stands in ``session.json``."""
    return _TEXT.format(defaults=repr(DEFAULTS), runtime=RUNTIME, device=DEVICE, cache=MODEL_CACHE)
