"""The layout ``onnx``: the same graph, with its weights outside it from a size of your choice, in one file or many.

    DIR/model.onnx          the result
    DIR/model.onnx.data     its weights from ``size_threshold`` on; else model.onnx.data.0, model.onnx.data.1 and so on
    DIR/session.json        the settings: session options and config entries

A program that takes one file only needs all weights inside; one that fetches or maps single weights needs a file for
each. The run folder itself always has weights from 1 KiB on in one file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from optim import ExitStatus, OptimError
from optim.layout import LARGEST_GRAPH, Laid, Layout, Result, require_provider
from optim_plugins.layouts.carried_settings import disabled_as_config

if TYPE_CHECKING:
    from optim_plugins.layouts.options import OnnxFilesOptions


class OnnxFiles(Layout):
    """A graph, and its weights where the user wants them."""

    name = "onnx"
    summary = "model.onnx with its weights inside, in one file or in many"
    consumer = "pip install onnxruntime"
    opener = Path(__file__).parents[1] / "openers" / "onnxruntime.py"
    options: ClassVar[str] = "optim_plugins.layouts.options:OnnxFilesOptions"

    def write(self, result: Result, folder: Path, options: OnnxFilesOptions) -> Laid:
        """The graph, its weights, and the settings."""
        from optim.onnx import deliver_model

        require_provider(result, layout=self.name, providers=("CPUExecutionProvider",))
        inside = _weights_below(result, options.size_threshold)
        if inside > LARGEST_GRAPH:
            raise OptimError(
                "layout-failed",
                f"{inside / 1e9:.1f} GB of weights cannot be inside model.onnx",
                "an ONNX graph has room for 2 GB",
                "choose a lower size_threshold",
                status=ExitStatus.NOT_HELD,
            )
        deliver_model(
            result.model, folder, size_threshold=options.size_threshold, one_file=options.all_tensors_to_one_file
        )
        session = disabled_as_config(result.model.session)
        settings = {"session_options": dict(session.session_options), "session_config": dict(session.session_config)}
        (folder / "session.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        return Laid("model.onnx", session, {"graph": "model.onnx"})


def _weights_below(result: Result, size_threshold: int) -> int:
    """Bytes of the weights that stay in the graph."""
    from onnx_ir import DataType

    parts = result.model.ir().graphs()
    tensors = [value.const_value for part in parts for value in part.initializers.values()]
    sizes = [tensor.nbytes for tensor in tensors if tensor is not None and tensor.dtype != DataType.STRING]
    return sum(size for size in sizes if size < size_threshold)
