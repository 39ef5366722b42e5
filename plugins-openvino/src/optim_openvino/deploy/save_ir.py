"""``openvino.save-ir``: the model in OpenVINO's own format beside the ONNX file, for whoever deploys that.

The ONNX file stays what is run and delivered. The two files of the format (``.xml``, ``.bin``) are its artefacts, and
the pass holds them against it: opened by OpenVINO in float32, they must give on a few samples what the ONNX file gives.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, OptimError, Pass, PassResult, Role, Target

if TYPE_CHECKING:
    from optim.arrays import Feeds
    from optim_openvino.deploy.save_ir_options import SaveIrOptions

GRAPH, WEIGHTS = "ir.xml", "ir.bin"
_SAMPLES = 3
_ROUNDING = 1e-4
_HALF = 5e-2
"""Relative L2: what another order of sums explains, and what weights of 11 bits of mantissa do."""


class SaveIr(Pass):
    """OpenVINO IR."""

    name = "openvino.save-ir"
    summary = "the model in OpenVINO's own format (IR) beside the ONNX file, held against it"
    options = "optim_openvino.deploy.save_ir_options:SaveIrOptions"
    role = Role.REQUESTED
    after = ("prepost:*",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where the graph has none yet."""
        return Applicable.no("its IR lies beside it already") if GRAPH in model.artefacts else APPLICABLE

    def apply(self, model: Model, options: SaveIrOptions, context: Context) -> PassResult:
        """Convert, hold against the ONNX file, and hand over both files."""
        path = context.scratch / GRAPH
        write_ir(model, path, compress=options.compress)
        limit = _HALF if options.compress else _ROUNDING
        drift = max(_drift(model, path, feeds, context.target) for feeds in islice(context.samples(), _SAMPLES))
        if not drift <= limit:
            raise OptimError(
                "ir-differs",
                f"the IR of {model.path.name} is not right",
                f"its outputs differ by {drift:.2g} from those of the ONNX file; {limit:.2g} is what rounding explains",
                "leave the pass out; this is an issue of OpenVINO, not of the model",
            )
        artefacts: dict[str, Path | str] = {GRAPH: path, WEIGHTS: path.with_suffix(".bin")}
        made = context.save(model.ir(), model, artefacts=artefacts)
        return PassResult(made, True, (f"the IR drifts {drift:.2g} from the ONNX file",), counts={"files": 2})


def write_ir(model: Model, path: Path, *, compress: bool) -> None:
    """Convert; nodes that OpenVINO names by a counter of its process are counted anew: the file is always the same.

    Args:
        model: an ONNX file.
        path: of the graph, which ends in ``.xml``; the weights lie beside it, in ``.bin``.
        compress: whether weights become float16.
    """
    from optim.onnx import openable_file
    from optim_openvino.runtime.core import core
    from optim_openvino.runtime.quiet_import import quiet_openvino

    with openable_file(model.path) as onnx_file:
        graph = core().read_model(str(onnx_file))
        for number, node in enumerate(graph.get_ordered_ops()):
            if node.friendly_name == node.get_name():
                node.friendly_name = f"{node.get_type_name()}_{number}"
        quiet_openvino().save_model(graph, str(path), compress_to_fp16=compress)


def _drift(model: Model, ir: Path, feeds: Feeds, target: Target) -> float:
    from optim import SessionConfig
    from optim.drift import compare_output
    from optim_openvino.runtime.backend import OpenVinoBackend

    backend, plain = OpenVinoBackend(), replace(model, session=SessionConfig())
    with backend.open(plain, target) as one, backend.open(replace(plain, path=ir), target) as other:
        expected, found = one.run(feeds), other.run(feeds)
    compared = [compare_output(name, expected[name], found[name]) for name in expected]
    return max(math.inf if one.problem else one.relative_error for one in compared)
