"""A model made for WebGPU, run with every number that it keeps in float16 looked at.

WASM has no kernels in float16: onnxruntime computes in float32 between casts, and drops two casts that follow each
other. A number beyond 65504 would go through, and be infinite on a GPU. Where a value is an output of the graph it is
really cast, so all of them are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from optim import OptimError, Session
from optim.arrays import Feeds, Outputs
from optim_prepost import PACKAGE
from optim_prepost.web.node_session import NodeSession


class RangeCheckedSession(Session):
    """A model in onnxruntime-web; a run in which float16 overflows raises.

    Args:
        model: path of the graph.
        options: of the session.
    """

    def __init__(self, model: Path, options: Mapping[str, Any]) -> None:
        graph = onnx.load(model, load_external_data=False)
        self._own = [output.name for output in graph.graph.output]
        made = [name for node in graph.graph.node for name in node.output if name and name not in self._own]
        graph.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)  # onnxruntime infers their types
        with tempfile.TemporaryDirectory(prefix="optim-float16-") as scratch:
            path = Path(scratch) / "model.onnx"
            path.write_bytes(graph.SerializeToString())
            self._session = NodeSession(path, options, weights=model.parent)

    def run(self, feeds: Feeds) -> Outputs:
        """One run.

        Raises:
            OptimError[beyond-float16]: a number goes beyond its range.
        """
        answer = self._session.run(feeds)
        for name, array in answer.items():
            if array.dtype == np.float16 and not np.isfinite(array).all():
                raise OptimError(
                    "beyond-float16",
                    f"'{name}' goes beyond the range of float16",
                    "it has numbers above 65504, which are infinite on WebGPU",
                    "give samples with --data: the pass leaves in float32 what they show to be too large",
                    PACKAGE,
                )
        return {name: answer[name] for name in self._own}

    @property
    def executed_on(self) -> Mapping[str, float]:
        """As it is without a look at ranges."""
        return self._session.executed_on

    def processor_s(self) -> float:
        """Of the process that runs the model."""
        return self._session.processor_s()

    def peak_memory_bytes(self) -> int | None:
        """Of the process that runs the model, with the values that are looked at."""
        return self._session.peak_memory_bytes()

    def close(self) -> None:
        """End the process."""
        self._session.close()
