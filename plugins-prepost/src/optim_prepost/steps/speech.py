"""Steps on sound: samples are float [count] in -1..1 at the rate that the model was trained with."""

from __future__ import annotations

import numpy as np
import onnx
from onnxruntime_extensions.tools.pre_post_processing import Step

from optim_prepost.steps.mel import mel_filters


class AudioDecoder(Step):
    """The bytes of a WAV, MP3 or FLAC file as samples, mixed to one channel. Needs a custom operator."""

    def __init__(self, rate: int = 16000, name: str | None = None) -> None:
        super().__init__(["audio"], ["samples"], name)
        self._rate = rate

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if kind != "uint8":
            raise ValueError(f"it takes the bytes of a file, uint8 [count], not {kind} [{shape}]")
        made = onnx.parser.parse_graph(f"""
            decode (uint8[{shape}] {self.input_names[0]}) => (float[{self._prefix}count] {self.output_names[0]})
            {{
                first = Constant <value = int64[1] {{0}}> ()
                batched = Unsqueeze ({self.input_names[0]}, first)
                decoded = ai.onnx.contrib.AudioDecoder (batched)
                {self.output_names[0]} = Squeeze (decoded, first)
            }}
            """)
        decoder = next(node for node in made.node if node.op_type == "AudioDecoder")
        decoder.attribute.append(onnx.helper.make_attribute("downsampling_rate", self._rate))
        decoder.attribute.append(onnx.helper.make_attribute("stereo_to_mono", 1))
        return made


class UnitVariance(Step):
    """Samples [count] with mean 0 and variance 1, as a batch of one: ``(x - mean) / Sqrt(variance + 1e-7)``."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(["samples"], ["input_values"], name)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if kind != "float" or "," in shape:
            raise ValueError(f"it takes samples, float [count], not {kind} [{shape}]")
        return onnx.parser.parse_graph(f"""
            unit (float[{shape}] {self.input_names[0]}) => (float[1,{shape}] {self.output_names[0]})
            {{
                first = Constant <value = int64[1] {{0}}> ()
                tiny = Constant <value = float {{1e-7}}> ()
                mean = ReduceMean <keepdims = 1> ({self.input_names[0]})
                centred = Sub ({self.input_names[0]}, mean)
                squared = Mul (centred, centred)
                variance = ReduceMean <keepdims = 1> (squared)
                safe = Add (variance, tiny)
                spread = Sqrt (safe)
                scaled = Div (centred, spread)
                {self.output_names[0]} = Unsqueeze (scaled, first)
            }}
            """)


class LogMel(Step):
    """Whisper's features of samples [count]: log of mel filtered power, [1, mels, frames].

    Samples are cut or filled with silence to ``seconds``; ``STFT`` with a Hann window over reflected edges; power times
    filters; ``log10``, not below 8 under the loudest; ``(x + 4) / 4``. Needs opset 17.
    """

    def __init__(
        self,
        mels: int = 80,
        size: int = 400,
        hop: int = 160,
        rate: int = 16000,
        seconds: float = 30.0,
        name: str | None = None,
    ) -> None:
        super().__init__(["samples"], ["input_features"], name)
        self._mels, self._size, self._hop, self._rate = mels, size, hop, rate
        self._count = int(seconds * rate)

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if kind != "float" or "," in shape:
            raise ValueError(f"it takes samples, float [count], not {kind} [{shape}]")
        half, frames = self._size // 2, self._count // self._hop
        floor = "floor = ReduceMax <keepdims = 1> (logged)"
        made = onnx.parser.parse_graph(f"""
            log_mel (float[{shape}] {self.input_names[0]})
                => (float[1,{self._mels},{frames}] {self.output_names[0]})
            {{
                none = Constant <value = int64[1] {{0}}> ()
                last = Constant <value = int64[1] {{-1}}> ()
                whole = Constant <value = int64[1] {{{self._count}}}> ()
                step = Constant <value = int64 {{{self._hop}}}> ()
                size = Constant <value = int64 {{{self._size}}}> ()
                edges = Constant <value = int64[2] {{{half}, {half}}}> ()
                ends = Constant <value = int64[1] {{{frames}}}> ()
                second = Constant <value = int64[1] {{1}}> ()
                silence = Constant <value = float {{0.0}}> ()
                least = Constant <value = float {{1e-10}}> ()
                ten = Constant <value = float {{{float(np.log(10.0))}}}> ()
                eight = Constant <value = float {{8.0}}> ()
                four = Constant <value = float {{4.0}}> ()
                given = Shape ({self.input_names[0]})
                missing = Sub (whole, given)
                short = Max (missing, none)
                fill = Concat <axis = 0> (none, short)
                filled = Pad ({self.input_names[0]}, fill, silence)
                cut = Slice (filled, none, whole)
                reflected = Pad <mode = "reflect"> (cut, edges)
                batched = Unsqueeze (reflected, none)
                signal = Unsqueeze (batched, last)
                spectrum = STFT <onesided = 1> (signal, step, window, size)
                kept = Slice (spectrum, none, ends, second)
                squares = Mul (kept, kept)
                power = ReduceSum <keepdims = 0> (squares, last)
                filtered = MatMul (power, filters)
                safe = Clip (filtered, least)
                natural = Log (safe)
                logged = Div (natural, ten)
                {floor}
                lowest = Sub (floor, eight)
                raised = Max (logged, lowest)
                moved = Add (raised, four)
                scaled = Div (moved, four)
                {self.output_names[0]} = Transpose <perm = [0, 2, 1]> (scaled)
            }}
            """)
        window = np.hanning(self._size + 1)[:-1].astype(np.float32)
        for name, array in (("window", window), ("filters", mel_filters(self._rate, self._size, self._mels))):
            tensor = onnx.numpy_helper.from_array(array, name)
            made.node.insert(0, onnx.helper.make_node("Constant", [], [name], value=tensor))
        return made


class GreedyCtc(Step):
    """Scores [1, frames, tokens] as the tokens heard: the best of each frame, repeats and blanks left out."""

    def __init__(self, blank: int = 0, name: str | None = None) -> None:
        super().__init__(["logits"], ["tokens"], name)
        self._blank = blank

    def _create_graph_for_step(self, graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        kind, shape = self._get_input_type_and_shape_strs(graph, 0)
        if len(shape.split(",")) != 3:
            raise ValueError(f"it takes scores, float [1, frames, tokens], not {kind} [{shape}]")
        return onnx.parser.parse_graph(f"""
            ctc ({kind}[{shape}] {self.input_names[0]}) => (int64[{self._prefix}heard] {self.output_names[0]})
            {{
                first = Constant <value = int64[1] {{0}}> ()
                last = Constant <value = int64[1] {{-1}}> ()
                blank = Constant <value = int64 {{{self._blank}}}> ()
                best = ArgMax <axis = -1, keepdims = 0> ({self.input_names[0]})
                path = Squeeze (best, first)
                earlier = Slice (path, first, last)
                before = Concat <axis = 0> (last, earlier)
                repeated = Equal (path, before)
                silent = Equal (path, blank)
                new = Not (repeated)
                sounding = Not (silent)
                heard = And (new, sounding)
                {self.output_names[0]} = Compress <axis = 0> (path, heard)
            }}
            """)
