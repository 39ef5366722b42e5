"""Steps on images. Pixels are uint8 [height, width, channels] until they become numbers; scores are float [1, c, h, w].

Resizing works on uint8 with antialiasing, which onnxruntime computes as Pillow does: in fixed point, rounded after each
axis. ``exclude_outside`` makes it so at the borders too. Without it, and on floats, results differ: docs/prepost.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnxruntime_extensions.tools.pre_post_processing import Step

_MODES = {
    "bilinear": 'mode = "linear", antialias = 1, exclude_outside = 1',
    "bicubic": 'mode = "cubic", cubic_coeff_a = -0.5, antialias = 1, exclude_outside = 1',
    "nearest": 'mode = "nearest", nearest_mode = "round_prefer_floor"',
}


class ConvertImageToBGR(Step):
    """Bytes of a PNG or JPEG file to pixels [height, width, 3], blue first.

    ``DecodeImage`` takes all that is no PNG for a JPEG, and libjpeg ends the process where that is wrong. So bytes
    that begin as neither are cut to none, which ``DecodeImage`` refuses with an error.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["image"], ["bgr_data"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if kind != "uint8" or len(shape.split(",")) != 1:
            raise ValueError(f"it takes the bytes of a file, uint8 [count], not {kind} [{shape}]")
        return onnx.parser.parse_graph(f"""
            image_to_bgr (uint8[{shape}] {self.input_names[0]})
                => (uint8[to_bgr_{self.step_num}_h, to_bgr_{self.step_num}_w, 3] {self.output_names[0]})
            {{
                zero = Constant <value = int64[1] {{0}}> ()
                three = Constant <value = int64[1] {{3}}> ()
                spare = Constant <value = uint8[3] {{0, 0, 0}}> ()
                png = Constant <value = int32[3] {{137, 80, 78}}> ()
                jpeg = Constant <value = int32[3] {{255, 216, 255}}> ()
                longer = Concat <axis = 0> ({self.input_names[0]}, spare)
                head = Slice (longer, zero, three)
                numbers = Cast <to = 6> (head)
                from_png = Sub (numbers, png)
                from_jpeg = Sub (numbers, jpeg)
                png_size = Abs (from_png)
                jpeg_size = Abs (from_jpeg)
                png_off = ReduceSum <keepdims = 0> (png_size)
                jpeg_off = ReduceSum <keepdims = 0> (jpeg_size)
                off = Mul (png_off, jpeg_off)
                other = Cast <to = 9> (off)
                count = Shape ({self.input_names[0]})
                end = Where (other, zero, count)
                kept = Slice ({self.input_names[0]}, zero, end)
                {self.output_names[0]} = com.microsoft.extensions.DecodeImage (kept)
            }}
            """)


class ResizeImage(Step):
    """Resize pixels [h, w, c]: ``Squeeze(Resize(Unsqueeze(image, 0), sizes), 0)``.

    - ``exact``: to a height and a width.
    - ``shortest``: so that the shortest edge has a length, the other rounds down, as transformers does:
      ``edge = Min(h, w); h2 = size * h / edge; w2 = size * w / edge`` in integers.
    - ``fit``: as large as fits into a height and a width: ``ratio = Min(height / h, width / w)``, sizes rounded.
    """

    def __init__(
        self, size: Sequence[int], policy: str = "exact", interpolation: str = "bilinear", name: str | None = None
    ) -> None:
        """``size`` is a height and a width, or one length; ``interpolation`` bilinear, bicubic or nearest."""
        super().__init__(["image"], ["resized_image"], name)
        self._size = list(size)
        self._policy = policy
        self._mode = _MODES[interpolation]

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        sizes = shape.split(",")
        if kind != "uint8" or len(sizes) != 3:
            raise ValueError(f"it takes pixels, uint8 [height, width, channels], not {kind} [{shape}]")
        if self._policy == "exact":
            height, width = str(self._size[0]), str(self._size[-1])
            compute = f"hw = Constant <value = int64[2] {{{height}, {width}}}> ()"
        elif self._policy == "fit":
            height, width = f"{self._prefix}h", f"{self._prefix}w"
            compute = f"""
                wanted = Constant <value = float[2] {{{float(self._size[0])}, {float(self._size[-1])}}}> ()
                both = Constant <value = int64[2] {{0, 1}}> ()
                whole = Shape ({self.input_names[0]})
                given = Gather (whole, both)
                edges = Cast <to = 1> (given)
                ratios = Div (wanted, edges)
                ratio = ReduceMin <keepdims = 1> (ratios)
                scaled = Mul (edges, ratio)
                rounded = Round (scaled)
                hw = Cast <to = 7> (rounded)"""
        else:
            height, width = f"{self._prefix}h", f"{self._prefix}w"
            compute = f"""
                size = Constant <value = int64[1] {{{self._size[0]}}}> ()
                both = Constant <value = int64[2] {{0, 1}}> ()
                first = Constant <value = int64[1] {{0}}> ()
                second = Constant <value = int64[1] {{1}}> ()
                whole = Shape ({self.input_names[0]})
                given = Gather (whole, both)
                h = Gather (given, first)
                w = Gather (given, second)
                edge = Min (h, w)
                scaled = Mul (given, size)
                hw = Div (scaled, edge)"""
        return onnx.parser.parse_graph(f"""
            resize (uint8[{shape}] {self.input_names[0]}) => (uint8[{height},{width},{sizes[2]}] {self.output_names[0]})
            {{
                {compute}
                axis = Constant <value = int64[1] {{0}}> ()
                one = Constant <value = int64[1] {{1}}> ()
                depth = Constant <value = int64[1] {{{sizes[2]}}}> ()
                sizes = Concat <axis = 0> (one, hw, depth)
                batched = Unsqueeze ({self.input_names[0]}, axis)
                resized = Resize <{self._mode}> (batched, , , sizes)
                {self.output_names[0]} = Squeeze (resized, axis)
            }}
            """)


class ToGray(Step):
    """RGB pixels [h, w, 3] as one channel [h, w, 1]: ITU-R 601 luma in 16-bit fixed point, as Pillow's mode ``L``.

    ``grey = BitShift(19595 R + 38470 G + 7471 B + 32768, 16, right)``
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["rgb"], ["gray"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        sizes = shape.split(",")
        if kind != "uint8" or len(sizes) != 3:
            raise ValueError(f"it takes RGB pixels, uint8 [height, width, 3], not {kind} [{shape}]")
        return onnx.parser.parse_graph(f"""
            gray (uint8[{shape}] {self.input_names[0]}) => (uint8[{sizes[0]},{sizes[1]},1] {self.output_names[0]})
            {{
                weights = Constant <value = int32[3] {{19595, 38470, 7471}}> ()
                half = Constant <value = int32[1] {{32768}}> ()
                whole = Constant <value = int32[1] {{65536}}> ()
                last = Constant <value = int64[1] {{-1}}> ()
                pixels = Cast <to = 6> ({self.input_names[0]})
                weighted = Mul (pixels, weights)
                summed = ReduceSum <keepdims = 1> (weighted, last)
                rounded = Add (summed, half)
                luma = Div (rounded, whole)
                {self.output_names[0]} = Cast <to = 2> (luma)
            }}
            """)


class NormalizeChannels(Step):
    """``(x - mean) / std`` of each channel of [c, h, w], for any number of channels."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], name: str | None = None) -> None:
        super().__init__(["data"], ["normalized_data"], name)
        self._mean, self._std = list(mean), list(std)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if kind != "float":
            raise ValueError(f"it takes float [channels, height, width], not {kind} [{shape}]")
        count = len(self._mean)
        return onnx.parser.parse_graph(f"""
            normalize (float[{shape}] {self.input_names[0]}) => (float[{shape}] {self.output_names[0]})
            {{
                mean = Constant <value = float[{count}, 1, 1] {{{_listed(self._mean)}}}> ()
                std = Constant <value = float[{count}, 1, 1] {{{_listed(self._std)}}}> ()
                centred = Sub ({self.input_names[0]}, mean)
                {self.output_names[0]} = Div (centred, std)
            }}
            """)


class ResizeScores(Step):
    """Scores [1, c, h, w] brought to the height and width of an image [h, w, c] by bilinear interpolation."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["scores", "image"], ["resized_scores"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        image_kind, image_shape = self._get_input_type_and_shape_strs(graph, 1)
        sizes = shape.split(",")
        if kind != "float" or len(sizes) != 4:
            raise ValueError(f"it takes scores, float [1, classes, height, width], not {kind} [{shape}]")
        height, width = image_shape.split(",")[:2]
        return onnx.parser.parse_graph(f"""
            resize (float[{shape}] {self.input_names[0]}, {image_kind}[{image_shape}] {self.input_names[1]})
                => (float[{sizes[0]},{sizes[1]},{height},{width}] {self.output_names[0]})
            {{
                places = Constant <value = int64[2] {{0, 1}}> ()
                scores_shape = Shape ({self.input_names[0]})
                image_shape = Shape ({self.input_names[1]})
                classes = Gather (scores_shape, places)
                hw = Gather (image_shape, places)
                sizes = Concat <axis = 0> (classes, hw)
                {self.output_names[0]} = Resize <mode = "linear"> ({self.input_names[0]}, , , sizes)
            }}
            """)


class LabelMap(Step):
    """Scores [1, c, h, w] as the number of the best class at each place, uint8 [h, w]."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["scores"], ["label_map"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        sizes = shape.split(",")
        if len(sizes) != 4:
            raise ValueError(f"it takes scores, float [1, classes, height, width], not {kind} [{shape}]")
        return onnx.parser.parse_graph(f"""
            label_map ({kind}[{shape}] {self.input_names[0]}) => (uint8[{sizes[2]},{sizes[3]}] {self.output_names[0]})
            {{
                axis = Constant <value = int64[1] {{0}}> ()
                best = ArgMax <axis = 1, keepdims = 0> ({self.input_names[0]})
                whole = Squeeze (best, axis)
                {self.output_names[0]} = Cast <to = 2> (whole)
            }}
            """)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(repr(float(value)) for value in values)
