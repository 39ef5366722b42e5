"""Steps on hidden states [batch, tokens, size] and on where an answer begins and ends."""

from __future__ import annotations

import onnx
from onnxruntime_extensions.tools.pre_post_processing import Step


class MeanPool(Step):
    """Mean of the hidden states over the tokens that the mask [batch, tokens] keeps.

    ``ReduceSum(states * mask, tokens) / Clip(ReduceSum(mask, tokens), 1e-9)``, as sentence-transformers does.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["hidden_states", "attention_mask"], ["pooled"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        mask_kind, mask_shape = self._get_input_type_and_shape_strs(graph, 1)
        sizes = shape.split(",")
        if kind != "float" or len(sizes) != 3:
            raise ValueError(f"it takes hidden states, float [batch, tokens, size], not {kind} [{shape}]")
        return onnx.parser.parse_graph(f"""
            pool (float[{shape}] {self.input_names[0]}, {mask_kind}[{mask_shape}] {self.input_names[1]})
                => (float[{sizes[0]},{sizes[2]}] {self.output_names[0]})
            {{
                last = Constant <value = int64[1] {{-1}}> ()
                tokens = Constant <value = int64[1] {{1}}> ()
                least = Constant <value = float {{1e-9}}> ()
                kept = Cast <to = 1> ({self.input_names[1]})
                weights = Unsqueeze (kept, last)
                weighted = Mul ({self.input_names[0]}, weights)
                total = ReduceSum <keepdims = 0> (weighted, tokens)
                summed = ReduceSum <keepdims = 0> (weights, tokens)
                count = Clip (summed, least)
                {self.output_names[0]} = Div (total, count)
            }}
            """)


class FirstToken(Step):
    """The hidden state of the first token: ``Gather(states, 0, axis = 1)``."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["hidden_states"], ["pooled"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        sizes = shape.split(",")
        if len(sizes) != 3:
            raise ValueError(f"it takes hidden states, [batch, tokens, size], not {kind} [{shape}]")
        return onnx.parser.parse_graph(f"""
            first ({kind}[{shape}] {self.input_names[0]}) => ({kind}[{sizes[0]},{sizes[2]}] {self.output_names[0]})
            {{
                place = Constant <value = int64 {{0}}> ()
                {self.output_names[0]} = Gather <axis = 1> ({self.input_names[0]}, place)
            }}
            """)


class UnitLength(Step):
    """Rows of [batch, size] brought to length 1: ``x / Clip(ReduceL2(x), 1e-12)``."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["vector"], ["embedding"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if kind != "float" or len(shape.split(",")) != 2:
            raise ValueError(f"it takes vectors, float [batch, size], not {kind} [{shape}]")
        length = (
            f"length = ReduceL2 <keepdims = 1> ({self.input_names[0]}, last)"
            if onnx_opset >= 18
            else f"length = ReduceL2 <keepdims = 1, axes = [-1]> ({self.input_names[0]})"
        )
        return onnx.parser.parse_graph(f"""
            unit (float[{shape}] {self.input_names[0]}) => (float[{shape}] {self.output_names[0]})
            {{
                last = Constant <value = int64[1] {{-1}}> ()
                least = Constant <value = float {{1e-12}}> ()
                {length}
                safe = Clip (length, least)
                {self.output_names[0]} = Div ({self.input_names[0]}, safe)
            }}
            """)


class AnswerSpan(Step):
    """Places of the first and the last token of an answer: ``ArgMax`` of each row of scores [batch, tokens]."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["start_logits", "end_logits"], ["start", "end"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        given = [self._get_input_type_and_shape_strs(graph, place) for place in (0, 1)]
        if any(len(shape.split(",")) != 2 for _, shape in given):
            raise ValueError(f"it takes two rows of scores, float [batch, tokens], not {given}")
        batch = given[0][1].split(",")[0]
        return onnx.parser.parse_graph(f"""
            span ({given[0][0]}[{given[0][1]}] {self.input_names[0]},
                  {given[1][0]}[{given[1][1]}] {self.input_names[1]})
                => (int64[{batch}] {self.output_names[0]}, int64[{batch}] {self.output_names[1]})
            {{
                {self.output_names[0]} = ArgMax <axis = -1, keepdims = 0> ({self.input_names[0]})
                {self.output_names[1]} = ArgMax <axis = -1, keepdims = 0> ({self.input_names[1]})
            }}
            """)
