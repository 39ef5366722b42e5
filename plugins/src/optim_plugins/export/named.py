"""Sources by their names: what one says of itself before it is exported, and why another cannot be exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optim.engine.export import is_ours, read_json
from optim.errors import OptimError
from optim.source import CONFIG_FILE


def foretold_facts(folder: Path) -> Mapping[str, Any]:
    """Returns what the ``config.json`` of a source says of its context; nothing if it does not say.

    It is what ``export.json`` says afterwards if the config has it written out: defaults of its class are unknown.
    """
    try:
        told = read_json(folder / CONFIG_FILE)
    except (OSError, ValueError):
        return {}  # whoever exports it says so
    if not isinstance(told, dict) or told.get("is_encoder_decoder"):
        return {}
    text = told.get("text_config")
    config = text if isinstance(text, dict) else told
    context = config.get("max_position_embeddings") or config.get("n_positions")
    return {"kind": "decoder", "context": context} if isinstance(context, int) else {}


def may_be_loaded(spec: str) -> bool:
    """Returns whether ``spec`` is a folder of another kind, without graphs: a plugin may know how to load it."""
    path = Path(spec)
    return path.is_dir() and not is_ours(path) and any(path.iterdir()) and not any(path.glob("*.onnx"))


def nothing_to_export(spec: str, output: Path) -> OptimError:
    """Returns why a source for which :func:`needs_export` says no cannot be exported."""
    path = Path(spec)
    if path.is_dir():
        return _without_config(path)
    if path.is_file():
        return OptimError.usage(
            "source-is-model",
            f"{spec} is nothing to export",
            "it is not a factory and no Hugging Face folder",
            f"optim run {spec} -o {output}",
        )
    return OptimError.usage(
        "source-missing",
        f"there is no {spec}",
        "it is not a folder here, and no package.module:factory",
        "check the path; for a model of the Hugging Face hub write hf://ORG/NAME",
    )


def _without_config(path: Path) -> OptimError:
    """The error for a folder that is no model of Hugging Face."""
    held = ", ".join(sorted(entry.name for entry in path.iterdir())[:4])
    return OptimError(
        "source-without-config",
        f"{path} is not a Hugging Face model folder",
        f"it holds {held}, but no {CONFIG_FILE}" if held else "it is empty",
        f"save the whole model: model.save_pretrained('{path}')",
    )
