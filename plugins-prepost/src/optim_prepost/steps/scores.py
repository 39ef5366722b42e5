"""Steps on scores: the best classes, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnxruntime_extensions.tools.pre_post_processing import Step


class TopK(Step):
    """The ``k`` largest along the last axis, largest first, with their places."""

    def __init__(self, k: int, name: str | None = None) -> None:
        super().__init__(["data"], ["scores", "indices"], name)
        self._k = k

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        kept = ",".join([*shape.split(",")[:-1], str(self._k)])
        return onnx.parser.parse_graph(f"""
            top_k ({kind}[{shape}] {self.input_names[0]})
                => ({kind}[{kept}] {self.output_names[0]}, int64[{kept}] {self.output_names[1]})
            {{
                k = Constant <value = int64[1] {{{self._k}}}> ()
                {self.output_names[0]}, {self.output_names[1]} = TopK ({self.input_names[0]}, k)
            }}
            """)


class Labels(Step):
    """Numbers of classes as the names of the classes: ``Gather(names, indices)``."""

    def __init__(self, labels: Sequence[str], name: str | None = None) -> None:
        super().__init__(["indices"], ["labels"], name)
        self._labels = list(labels)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if kind != "int64":
            raise ValueError(f"it takes numbers of classes, int64, not {kind} [{shape}]")
        made = onnx.parser.parse_graph(f"""
            labels (int64[{shape}] {self.input_names[0]}) => (string[{shape}] {self.output_names[0]})
            {{ {self.output_names[0]} = Gather <axis = 0> (names, {self.input_names[0]}) }}
            """)
        names = onnx.numpy_helper.from_array(np.array(self._labels, dtype=object), "names")
        made.node.insert(0, onnx.helper.make_node("Constant", [], ["names"], value=names))
        return made


class Sigmoid(Step):
    """``1 / (1 + exp(-x))``."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["data"], ["probabilities"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        return onnx.parser.parse_graph(f"""
            sigmoid ({kind}[{shape}] {self.input_names[0]}) => ({kind}[{shape}] {self.output_names[0]})
            {{ {self.output_names[0]} = Sigmoid ({self.input_names[0]}) }}
            """)
