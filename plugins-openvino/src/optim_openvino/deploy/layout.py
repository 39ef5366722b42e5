"""The layout ``openvino``: the result in OpenVINO's own format, with the properties that it is opened with.

    DIR/openvino_model.xml, .bin           graph and weights
    DIR/properties.json                    {"CPU": {"INFERENCE_PRECISION_HINT": "f32", ...}}
    DIR/config.json, tokenizer.json, ...   of the source, where there are any

    ((device, properties),) = json.load(open("DIR/properties.json")).items()
    openvino.Core().compile_model("DIR/openvino_model.xml", device, properties)

``benchmark_app -m openvino_model.xml -load_config properties.json`` reads the same file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from optim import OptimError
from optim.layout import Laid, Layout, Result, carry_files
from optim_openvino.runtime.properties import MODEL_CACHE, RUNTIME, settings_of

if TYPE_CHECKING:
    from optim import PassOptions
    from optim.arrays import Feeds, Outputs

_GRAPH, _PROPERTIES = "openvino_model.xml", "properties.json"
_NOT_KEPT = "what OpenVINO compiles is not kept there for the next time: name a CACHE_DIR of your own beside it"


class OpenVino(Layout):
    """A folder that OpenVINO opens without ONNX."""

    name = "openvino"
    summary = "OpenVINO's own format (IR) with its properties, for openvino.Core and benchmark_app"
    consumer = "pip install openvino"
    opener = Path(__file__).with_name("opener.py")

    def write(self, result: Result, folder: Path, options: PassOptions) -> Laid:
        """Graph, weights and properties; what the source has beside its weights goes along."""
        from optim_openvino.deploy.save_ir import write_ir

        _require_ours(result)
        if result.files is not None:
            carry_files(result.files, folder)
        write_ir(result.model, folder / _GRAPH, compress=False)
        device, properties = settings_of(result.model, result.target)
        cached = properties.pop(MODEL_CACHE, "NO") == "YES"
        (folder / _PROPERTIES).write_text(json.dumps({device: properties}, indent=2) + "\n", encoding="utf-8")
        told = {"properties": _PROPERTIES, "outputs": [one.name for one in result.model.outputs]}
        return Laid(_GRAPH, result.model.session, told, (_NOT_KEPT,) if cached else ())

    def expected(self, result: Result, sample: Feeds, outputs: Outputs) -> Outputs:
        """What OpenVINO makes of the ONNX file with the same properties: the run's own outputs are onnxruntime's."""
        from optim_openvino.runtime.backend import OpenVinoBackend

        with OpenVinoBackend().open(result.model, result.target) as session:
            return {name: array.copy() for name, array in session.run(sample).items()}


def _require_ours(result: Result) -> None:
    if result.target.made_for != RUNTIME:
        raise OptimError.usage(
            "layout-not-for-target",
            f"a result for target {result.target.name} cannot be delivered as openvino",
            f"it was proven and timed on {result.target.runs_on}, and not on OpenVINO",
            "optim run MODEL --target openvino --deliver openvino",
        )
