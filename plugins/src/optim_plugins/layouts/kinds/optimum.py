"""The layout ``optimum``: ``onnx/model_<tag>.onnx`` beside config and tokenizer, as a repository of the hub has it.

    DIR/config.json, tokenizer.json, ...   of the source
    DIR/modules.json, 1_Pooling/...        where it is a model of sentence-transformers
    DIR/onnx/model_optim.onnx              the result, with model_optim.onnx_data where it has large weights

    ORTModelForFeatureExtraction.from_pretrained(DIR, subfolder="onnx", file_name="model_optim.onnx")
    SentenceTransformer(DIR, backend="onnx", model_kwargs={"file_name": "model_optim.onnx"})

Both open it with ONNX Runtime's default settings: a session's settings are arguments there, and no file has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optim.layout import Laid, Layout, Result, carry_files, place_graph, require_provider
from optim.source import CONFIG_FILE, MODULES_FILE
from optim_plugins.layouts.hub_files import missing_config

if TYPE_CHECKING:
    from optim_plugins.layouts.options import OptimumOptions

_FOUND = "last_hidden_state"
"""The output that ORTModelForFeatureExtraction looks for, which sentence-transformers opens with."""

PROVIDERS = ("CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider")


class Optimum(Layout):
    """A folder that optimum and sentence-transformers open."""

    name = "optimum"
    summary = "a folder of the hub with onnx/, for optimum's ORTModel and sentence-transformers"
    consumer = "pip install 'optimum-onnx[onnxruntime]' (or 'sentence-transformers[onnx]')"
    opener = Path(__file__).parents[1] / "openers" / "optimum.py"
    options: ClassVar[str] = "optim_plugins.layouts.options:OptimumOptions"

    def refuse(self, files: Path | None, options: OptimumOptions) -> str:
        """Without config.json neither library opens a folder."""
        return missing_config(files)

    def write(self, result: Result, folder: Path, options: OptimumOptions) -> Laid:
        """The graph under its name, and what the source has beside its weights."""
        require_provider(result, layout=self.name, providers=PROVIDERS)
        assert result.files is not None
        pooled = _is_pooled(result)
        carried = carry_files(result.files, folder, head=not pooled).names
        name = f"model_{options.tag}.onnx" if options.tag else "model.onnx"
        place_graph(result, folder / "onnx" / name, data_suffix="_data")
        told: dict[str, Any] = {"file": name, "provider": result.target.provider}
        return Laid(f"onnx/{name}", told=told, notes=tuple(_notes(carried, pooled=pooled)))


def _is_pooled(result: Result) -> bool:
    """Whether the graph gives sentences already: sentence-transformers looks for words, and pools them itself."""
    assert result.files is not None
    outputs = [output.name for output in result.model.outputs]
    return (result.files / MODULES_FILE).is_file() and _FOUND not in outputs


def _notes(carried: tuple[str, ...], *, pooled: bool) -> Iterator[str]:
    who = "sentence-transformers and optimum open" if MODULES_FILE in carried else "optimum opens"
    yield f"{who} it with the runtime's defaults; {CONFIG_FILE} and the files beside it are the source's"
    if pooled:
        yield (
            f"pooling is in the graph, which gives no {_FOUND}: optimum alone opens it, as ORTModelForCustomTasks; for "
            "sentence-transformers take the encoder without it: --task feature-extraction"
        )
