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


class Written(Step):
    """Its graph is written in the class, with A and B for its inputs, Y for its output."""

    takes, graph = ("a",), ""

    def __init__(self, name=None):
        super().__init__(list(self.takes), ["made"], name)

    def _create_graph_for_step(self, graph, onnx_opset):
        text = self.graph.replace("Y", "made")
        for letter, name in zip("AB", self.input_names, strict=False):
            text = text.replace(letter, name)
        return onnx.parser.parse_graph(text)


class Misdeclared(Written):
    graph = "g (uint8[32,40,3] A) => (float[1,3,32,40] Y) { Y = Identity (A) }"


class Missized(Written):
    graph = "g (uint8[32,40,3] A) => (uint8[32,41,3] Y) { Y = Identity (A) }"


class Flat(Written):
    graph = "g (uint8[32,40,3] A) => (float[32,40,3] Y) { Y = Cast <to=1> (A) }"


class TakesFloats(Written):
    graph = "g (float[32,40,3] A) => (float[32,40,3] Y) { Y = Identity (A) }"


class TakesTwo(Written):
    takes = ("a", "b")
    graph = "g (uint8[32,40,3] A, uint8[32,40,3] B) => (uint8[32,40,3] Y) { Y = Add (A, B) }"


class Misnamed(Written):
    graph = "g (uint8[32,40,3] A) => (uint8[32,40,3] other) { other = Identity (A) }"


class Mixed(Written):
    graph = "g (uint8[32,40,3] A) => (uint8[32,40,3] Y) { c = Constant <value=float[1] {1}> ()\n Y = Sub (A, c) }"


class TakesLabels(Written):
    graph = "g (int64[batch,7] A) => (int64[batch,7] Y) { Y = Identity (A) }"


NO_STEP = 1
