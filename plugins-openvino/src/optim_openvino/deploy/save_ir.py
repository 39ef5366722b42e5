"""``openvino.save-ir``: the model in OpenVINO's own format, beside the ONNX file.

The ONNX file stays what is run and delivered. The two files of the format (``.xml``, ``.bin``) are its artefacts, and
the pass holds them against it: opened by OpenVINO in float32, they must give on a few samples what the ONNX file gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, OptimError, Pass, PassResult, Role, Target
from optim.drift import compare_outputs, objection

if TYPE_CHECKING:
    from optim.backend import Session
    from optim_openvino.deploy.save_ir_options import SaveIrOptions

GRAPH, WEIGHTS = "ir.xml", "ir.bin"
_SAMPLES = 3
_HALF = 5e-2
"""Drift by weights of 11 bits of mantissa."""


class SaveIr(Pass):
    """OpenVINO IR."""

    name = "openvino.save-ir"
    summary = "writes the model in OpenVINO's own format (IR) beside the ONNX file, and compares both"
    options = "optim_openvino.deploy.save_ir_options:SaveIrOptions"
    role = Role.REQUESTED
    after = ("prepost:*",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the folder has no IR yet."""
        return Applicable.no("its IR is beside it already") if GRAPH in model.artefacts else APPLICABLE

    def apply(self, model: Model, options: SaveIrOptions, context: Context) -> PassResult:
        """Convert, hold against the ONNX file, and hand over both files."""
        path = context.scratch / GRAPH
        write_ir(model, path, compress=options.compress)
        with _both(model, path, context.target) as (onnx_file, ir):
            samples = islice(context.samples(), _SAMPLES)
            compared = compare_outputs((onnx_file.run(feeds), ir.run(feeds)) for feeds in samples)
        if why := objection(compared, _HALF if options.compress else None):
            raise OptimError(
                "ir-differs",
                f"the IR of {model.path.name} does not compute what the ONNX file computes",
                why,
                "leave the pass out; this is an issue of OpenVINO, not of the model",
            )
        artefacts: dict[str, Path | str] = {GRAPH: path, WEIGHTS: path.with_suffix(".bin")}
        made = context.save(model.ir(), model, artefacts=artefacts)
        drift = max((one.relative_error for one in compared), default=0.0)
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


@contextmanager
def _both(model: Model, ir: Path, target: Target) -> Iterator[tuple[Session, Session]]:
    from optim import SessionConfig
    from optim_openvino.runtime.backend import OpenVinoBackend

    backend, plain = OpenVinoBackend(), replace(model, session=SessionConfig())
    with backend.open(plain, target) as one, backend.open(replace(plain, path=ir), target) as other:
        yield one, other
