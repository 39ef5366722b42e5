"""Loads a Hugging Face folder: refuses first whatever would run code, download, or leave weights at random."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optim import OptimError, SourceRequest
from optim.errors import unknown_name
from optim.source import ADAPTER_FILE, CONFIG_FILE
from optim_plugins.torch.sources.huggingface.lora_adapter import find_base, inject

_INDEX = "model.safetensors.index.json"
_WEIGHTS = "model.safetensors"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model of transformers in evaluation mode.

    Attributes:
        model: ``PreTrainedModel``.
        weight_files: that its parameters are mapped from.
        notes: for the report.
        counts: likewise.
    """

    model: Any
    weight_files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def load_folder(folder: Path, request: SourceRequest) -> Loaded:
    """Load the model of a folder for its task.

    Raises:
        OptimError: source-config-unreadable, source-needs-remote-code, source-quantized, source-unknown-architecture,
            source-without-weights, source-is-pickled, source-shard-missing, source-weights-unreadable,
            source-weights-incomplete, unknown-task, task-does-not-fit, source-option-unused.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    _refuse_unused(folder, request)
    if is_adapter(folder):
        base_folder = find_base(folder, request)
        _refuse_quantized(base_folder, _read_config(base_folder), adapter=folder)
        base = load_folder(base_folder, replace(request, arguments={}))
        adapted = inject(base.model, folder)
        return replace(base, model=adapted, notes=(*base.notes, f"with the adapter of {folder.name}"))
    config = _read_config(folder)
    _refuse_code(folder, config, request)
    _refuse_quantized(folder, config)
    files = _find_weights(folder, request)
    model_class = _model_class(folder, config, request)
    return _load(folder, model_class, files, request)


def is_adapter(folder: Path) -> bool:
    """Whether a folder has an adapter alone, whose model is elsewhere."""
    return (folder / ADAPTER_FILE).is_file() and not (folder / CONFIG_FILE).is_file()


def _refuse_unused(folder: Path, request: SourceRequest) -> None:
    """Options that say nothing about a folder are a misunderstanding."""
    adapter = (folder / ADAPTER_FILE).is_file()
    unused = [f"--source-arg {name}" for name in request.arguments if not (adapter and name == "base")]
    unused += [f"--state {name}" for name in request.state]
    unused += [f"--rename {old}={new}" for old, new in request.rename.items()]
    if unused:
        raise OptimError.usage(
            "source-option-unused",
            f"{unused[0]} is for package.module:factory",
            f"{folder} is a folder, whose architecture says what it takes and what its state is",
            f"leave {unused[0]} out",
        )


def _read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` as JSON values."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptimError(
            "source-config-unreadable", f"{folder / CONFIG_FILE} cannot be read", str(error), "copy the folder again"
        ) from error
    if not isinstance(config, dict):
        raise OptimError(
            "source-config-unreadable",
            f"{folder / CONFIG_FILE} is not a configuration of a model",
            f"it holds a {type(config).__name__}",
            "copy the folder again",
        )
    return config


def _find_weights(folder: Path, request: SourceRequest) -> tuple[Path, ...]:
    """The safetensors files of a folder; empty where it has a pickle that the user allows."""
    if (folder / _INDEX).is_file():
        names = _shards(folder / _INDEX)
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise OptimError(
                "source-shard-missing",
                f"{folder} lacks {len(missing)} of {len(names)} files with weights",
                f"{_INDEX} names {', '.join(missing[:4])}",
                f"copy or download {missing[0]} again",
            )
        return tuple(folder / name for name in names)
    if (folder / _WEIGHTS).is_file():
        return (folder / _WEIGHTS,)
    pickles = [name for name in _PICKLES if (folder / name).is_file()]
    if pickles and request.allow_pickle:
        return ()
    if pickles:
        raise OptimError.usage(
            "source-is-pickled",
            f"{folder / pickles[0]} is not read",
            "it is a pickle, which could run any code when loaded",
            f"optim export {folder} -o DIR --allow-pickle    # if you trust it; safetensors are better",
        )
    found = sorted(file.name for file in folder.iterdir())
    raise OptimError(
        "source-without-weights",
        f"{folder} has no weights",
        f"there is no {_WEIGHTS}; it holds {', '.join(found[:8])}",
        f"save the whole model: model.save_pretrained('{folder}')",
    )


def _shards(index: Path) -> list[str]:
    """The files that an index of weights names."""
    try:
        return sorted({str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OptimError(
            "source-weights-unreadable",
            f"{index} is not an index of weights",
            f"{type(error).__name__}: {error}",
            "copy or download the folder again",
        ) from error


def _refuse_code(folder: Path, config: Mapping[str, Any], request: SourceRequest) -> None:
    if config.get("auto_map") and not request.trust_remote_code:
        raise OptimError.usage(
            "source-needs-remote-code",
            f"{folder} brings code of its own, which is not run",
            f"config.json names {', '.join(sorted(map(str, config['auto_map'].values())))}",
            f"optim export {folder} -o DIR --trust-remote-code    # if you have read and trust it",
        )


def _refuse_quantized(folder: Path, config: Mapping[str, Any], adapter: Path | None = None) -> None:
    """Weights of a few bits, as QLoRA trains on, have kernels of their own in torch, which no exporter knows."""
    method = config.get("quantization_config")
    if method:
        kind = method.get("quant_method", "a few bits") if isinstance(method, dict) else method
        raise OptimError.usage(
            "source-quantized",
            f"the weights of {folder} are quantized already",
            f"config.json says {kind}, which no exporter writes as ONNX",
            "save the model dequantized: model.dequantize().save_pretrained(FOLDER, save_original_format=False); "
            + (f"optim run {adapter} --source-arg base=FOLDER" if adapter else "optim quantizes it itself"),
        )


def _model_class(folder: Path, config: Mapping[str, Any], request: SourceRequest) -> Any:
    import transformers

    from optim_plugins.torch.sources.huggingface.model_tasks import TASKS

    if request.task:
        if request.task not in TASKS:
            raise unknown_name("task", request.task, TASKS, fix="leave --task out: the architecture says what it is")
        return getattr(transformers, TASKS[request.task].auto_class)
    architectures = config.get("architectures") or []
    known = [name for name in architectures if hasattr(transformers, name)]
    if known:
        return getattr(transformers, known[0])
    if config.get("auto_map") and request.trust_remote_code:
        auto = [name for name in config["auto_map"] if name.startswith("AutoModel")]
        return getattr(transformers, auto[0] if auto else "AutoModel")
    if not architectures and config.get("model_type") in transformers.CONFIG_MAPPING:
        return transformers.AutoModel
    named = ", ".join(architectures) or f"model_type {config.get('model_type')!r}"
    raise OptimError(
        "source-unknown-architecture",
        f"transformers {transformers.__version__} does not know the model of {folder}",
        f"config.json says {named}",
        "pip install --upgrade transformers, or export it from a factory of your own",
    )


def _load(folder: Path, model_class: Any, files: tuple[Path, ...], request: SourceRequest) -> Loaded:
    import torch

    options: dict[str, Any] = {"local_files_only": True, "output_loading_info": True, "dtype": torch.float32}
    if request.trust_remote_code:
        options["trust_remote_code"] = True
    if not files:
        options["use_safetensors"] = False
    notes: list[str] = []
    model, info = _from_pretrained(folder, model_class, options)
    missing = sorted(info["missing_keys"])
    if missing and all("pooler" in name for name in missing):
        model, info = _from_pretrained(folder, model_class, {**options, "add_pooling_layer": False})
        missing = sorted(info["missing_keys"])
        notes.append("the folder has no weights of a pooler: the model is exported without it")
    mismatched = sorted(str(entry[0] if isinstance(entry, tuple) else entry) for entry in info["mismatched_keys"])
    if missing or mismatched:
        raise OptimError(
            "source-weights-incomplete",
            f"{folder} lacks weights of {type(model).__name__}",
            f"{len(missing) + len(mismatched)} would be random: {', '.join((missing + mismatched)[:4])}",
            "name the task that it was trained for: --task feature-extraction",
        )
    if unexpected := len(info["unexpected_keys"]):
        notes.append(f"{unexpected} tensors of the folder belong to no part of {type(model).__name__}")
    stored = _stored_dtypes(files)
    if stored - {"F32", "I64", "BOOL"}:
        notes.append(f"weights are stored as {', '.join(sorted(stored))}, and exported as float32")
    model.eval().requires_grad_(False)
    return Loaded(model, files, tuple(notes), {"parameters": sum(p.numel() for p in model.parameters())})


def _stored_dtypes(files: tuple[Path, ...]) -> set[str]:
    """Types of the tensors in safetensors files, by their own names (``F32``, ``BF16``)."""
    found: set[str] = set()
    for file in files:
        with file.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        found |= {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}
    return found


def _from_pretrained(folder: Path, model_class: Any, options: dict[str, Any]) -> Any:
    import transformers
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return model_class.from_pretrained(folder, **options)
    except Exception as error:  # safetensors, torch and transformers each raise their own
        message = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if "Unrecognized configuration class" in message:
            raise OptimError.usage(
                "task-does-not-fit",
                f"{folder} is not a model for the task",
                message[:300],
                "leave --task out: the architecture says what it is",
            ) from error
        raise OptimError(
            "source-weights-unreadable",
            f"transformers {transformers.__version__} cannot load {folder}",
            f"{type(error).__name__}: {message[:300]}",
            "copy or download the folder again",
        ) from error
