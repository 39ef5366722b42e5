"""A folder of a LoRA adapter, as peft saves it, on the model that it names."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from optim import OptimError, SourceRequest
from optim.source import ADAPTER_FILE, CONFIG_FILE


def find_base(folder: Path, request: SourceRequest) -> Path:
    """The folder of the model that an adapter belongs to.

    Raises:
        OptimError[adapter-base-missing]: it is not on this machine; nothing is downloaded.
    """
    try:
        config = json.loads((folder / ADAPTER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptimError(
            "source-config-unreadable", f"{folder / ADAPTER_FILE} cannot be read", str(error), "copy the folder again"
        ) from error
    if not isinstance(config, dict):
        raise OptimError(
            "source-config-unreadable",
            f"{folder / ADAPTER_FILE} is not a configuration of an adapter",
            f"it holds a {type(config).__name__}",
            "copy the folder again",
        )
    named = str(request.arguments.get("base") or config.get("base_model_name_or_path") or "")
    for path in (Path(named), folder / named, folder.parent / Path(named).name):
        if named and (path / CONFIG_FILE).is_file():
            return path
    raise OptimError.usage(
        "adapter-base-missing",
        f"{folder} is an adapter, and its model is not here",
        f"it belongs to '{named}', which is not a folder on this machine",
        f"optim export {folder} -o DIR --source-arg base=FOLDER_OF_THE_MODEL",
    )


def inject(model: object, folder: Path) -> object:
    """The model with the adapter's layers in it, not merged.

    Raises:
        OptimError[peft-missing]: peft is not installed.
        OptimError[source-weights-unreadable]: the adapter does not fit the model.
    """
    if importlib.util.find_spec("peft") is None:
        raise OptimError.usage(
            "peft-missing",
            f"{folder} is a LoRA adapter, and peft is not installed",
            "only peft can lay an adapter over its model",
            "pip install peft",
        )
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, folder, is_trainable=False).eval().get_base_model()
    except Exception as error:  # peft raises whatever torch and safetensors do
        raise OptimError(
            "source-weights-unreadable",
            f"peft cannot load {folder}",
            f"{type(error).__name__}: {str(error).splitlines()[0][:300]}",
            "copy or download the folder again",
        ) from error
