"""The layout ``transformers.js``: ``onnx/model<suffix>.onnx`` beside config and tokenizer, for Node and browsers.

    DIR/config.json                      of the source, with transformers.js_config: the dtype that is opened unasked
    DIR/tokenizer.json, ...
    DIR/onnx/model_quantized.onnx        the result under the suffix of its dtype

    await AutoModel.from_pretrained("DIR")                          // with env.allowRemoteModels = false

The suffix is that of what the graph computes with: ``q8`` (``_quantized``) where it has integers of 8 bits,
``q4``, ``fp16``, ``fp32`` else. Weights beyond 2 GB lie in a file beside, which ``use_external_data_format`` tells.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from optim.layout import Laid, Layout, Result, carry_files, place_graph, require_provider
from optim.source import CONFIG_FILE
from optim_plugins.layouts.hub_files import missing_config, missing_tokenizer

if TYPE_CHECKING:
    from optim_plugins.layouts.options import TransformersJsOptions

SUFFIXES = {
    "fp32": "",
    "fp16": "_fp16",
    "int8": "_int8",
    "uint8": "_uint8",
    "q8": "_quantized",
    "q4": "_q4",
    "q4f16": "_q4f16",
}
"""As the package has them in ``utils/dtypes.js``."""


class TransformersJs(Layout):
    """A folder that the npm package @huggingface/transformers opens."""

    name = "transformers.js"
    summary = "a folder of the hub with onnx/, for @huggingface/transformers in Node and browsers"
    consumer = "npm install @huggingface/transformers, with node_modules in or above the working folder"
    opener = Path(__file__).parents[1] / "openers" / "transformers_js.py"
    options: ClassVar[str] = "optim_plugins.layouts.options:TransformersJsOptions"

    def refuse(self, files: Path | None, options: TransformersJsOptions) -> str:
        """Without config and tokenizer a pipeline opens nothing."""
        return missing_config(files) or ("" if options.without_tokenizer else missing_tokenizer(files))

    def write(self, result: Result, folder: Path, options: TransformersJsOptions) -> Laid:
        """The graph under its suffix, and a config that names it."""
        require_provider(
            result, layout=self.name, providers=("CPUExecutionProvider", "wasm", "WebGpuExecutionProvider")
        )
        assert result.files is not None
        carry_files(result.files, folder)
        dtype = options.dtype or dtype_of_graph(result.model.path)
        name = f"model{SUFFIXES[dtype]}.onnx"
        graph = place_graph(result, folder / "onnx" / name, data_suffix="_data", embed=True)
        external = graph.with_name(f"{name}_data").is_file()
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        own = {"dtype": dtype, **({"use_external_data_format": {name: 1}} if external else {})}
        config["transformers.js_config"] = {**config.get("transformers.js_config", {}), **own}
        (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        return Laid(f"onnx/{name}", told={"outputs": [output.name for output in result.model.outputs]})


_INTEGER_KERNELS = {
    "MatMulInteger",
    "ConvInteger",
    "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat",
    "QLinearMatMul",
    "QLinearConv",
    "QGemm",
    "QAttention",
    "DynamicQuantizeLSTM",
    "QuantizeLinear",
}
_BLOCKS = "MatMulNBits"


def dtype_of_graph(path: Path) -> str:
    """``q4``, ``q8``, ``fp16`` or ``fp32``."""
    import onnx
    from onnx import TensorProto

    from optim.onnx import operator_counts

    counts = operator_counts(path)
    if any(name.endswith(_BLOCKS) for name in counts):
        return "q4"
    if any(name.rpartition(".")[2].rpartition(":")[2] in _INTEGER_KERNELS for name in counts):
        return "q8"
    graph = onnx.load(path, load_external_data=False).graph
    sizes: dict[int, int] = {}
    for tensor in graph.initializer:
        count = 1
        for size in tensor.dims:
            count *= size
        sizes[tensor.data_type] = sizes.get(tensor.data_type, 0) + count
    halves = sizes.get(TensorProto.FLOAT16, 0)
    return "fp16" if halves > sizes.get(TensorProto.FLOAT, 0) else "fp32"
