"""Steps as a user writes them, named in tests as ``own_steps:Class``."""

from __future__ import annotations

import numpy as np
import onnx
from onnxruntime_extensions.tools.pre_post_processing import Step


class Invert(Step):
    """255 - pixels, with a counterpart."""

    def __init__(self, top=255, name=None):
        super().__init__(["pixels"], ["inverted"], name)
        self.top = int(top)

    def _create_graph_for_step(self, graph, onnx_opset):
        _, shape = self._get_input_type_and_shape_strs(graph, 0)
        return onnx.parser.parse_graph(f"""
            invert (uint8[{shape}] {self.input_names[0]}) => (uint8[{shape}] {self.output_names[0]})
            {{
                top = Constant <value = uint8 {{{self.top}}}> ()
                {self.output_names[0]} = Sub (top, {self.input_names[0]})
            }}
            """)

    @staticmethod
    def reference(pixels, top=255, name=None):
        return (np.uint8(top) - pixels,)


class Alone(Invert):
    """Has no counterpart."""

    reference = None


class Wrong(Invert):
    """Its counterpart does something else."""

    @staticmethod
    def reference(pixels, top=255, name=None):
        return (pixels,)


class Raises(Invert):
    """Breaks while its graph is made."""

    def _create_graph_for_step(self, graph, onnx_opset):
        raise RuntimeError("no graph today")


class Foreign(Invert):
    """Brings a custom operator."""

    def _create_graph_for_step(self, graph, onnx_opset):
        _, shape = self._get_input_type_and_shape_strs(graph, 0)
        return onnx.parser.parse_graph(f"""
            invert (uint8[{shape}] {self.input_names[0]}) => (uint8[{shape}] {self.output_names[0]})
            {{
                {self.output_names[0]} = ai.onnx.contrib.Inverse ({self.input_names[0]})
            }}
            """)


NO_STEP = 1
