"""What peft saved of an adapter, module by module: its matrices and the scale that peft would multiply them with."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from optim import OptimError
from optim.source import ADAPTER_FILE

_WEIGHTS_FILE = "adapter_model.safetensors"

_PREFIX = re.compile(r"^base_model\.model\.")
_TENSOR = re.compile(
    r"^(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_magnitude_vector|hada_w1_a|hada_w1_b|hada_w2_a|hada_w2_b)(?:\.weight)?$"
)
_COMPLETE = (
    frozenset(("lora_A", "lora_B")),
    frozenset(("lora_A", "lora_B", "lora_magnitude_vector")),
    frozenset(("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b")),
)


_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Ways to begin that take something out of the weights of the base: over the base itself the adapter says nonsense."""


@dataclass(frozen=True, slots=True)
class AdaptedModule:
    """An adapter at one module.

    Attributes:
        tensors: by part, as peft calls them, in float32.
        scale: alpha / r, or alpha / sqrt(r), with the patterns of the configuration.
    """

    tensors: Mapping[str, NDArray[Any]]
    scale: float


@dataclass(frozen=True, slots=True)
class PeftFolder:
    """An adapter as peft saved it.

    Attributes:
        path: of the folder.
        modules: by name.
        base: the folder of the model that it belongs to, as the configuration says; it may not be there.
        transposed: whether weights of the base lie as (in, out), as those of GPT-2 do.
    """

    path: Path
    modules: Mapping[str, AdaptedModule]
    base: str
    transposed: bool


def read_peft_folder(path: Path) -> PeftFolder:
    """Read an adapter with peft.

    Raises:
        OptimError[peft-missing]: peft is not installed.
        OptimError[not-a-peft-folder]: there is no configuration, or no safetensors.
        OptimError[adapter-unreadable]: peft cannot read it.
        OptimError[adapter-not-convertible]: it is of another method, or has more than matrices for linear layers.
    """
    _require_files(path)
    if importlib.util.find_spec("peft") is None:
        raise OptimError.usage(
            "peft-missing",
            f"{path} cannot be converted",
            "peft is not installed",
            "pip install 'peft>=0.17' 'safetensors>=0.5'",
        )
    from peft import PeftConfig
    from peft.utils import load_peft_weights

    try:
        config = PeftConfig.from_pretrained(str(path), local_files_only=True)
        state = load_peft_weights(str(path), device="cpu")
    except Exception as error:  # peft raises whatever torch, safetensors and json do
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise OptimError(
            "adapter-unreadable",
            f"{path} cannot be read",
            f"{type(error).__name__}: {said[:300]}",
            "copy or download the folder again",
        ) from error
    if reason := _why_not(config):
        raise _not_convertible(path, reason)
    tensors: dict[str, dict[str, NDArray[Any]]] = {}
    for name, tensor in state.items():
        match = _TENSOR.match(_PREFIX.sub("", name))
        if match is None:
            raise _not_convertible(path, f"'{name}' is not a matrix of a linear layer")
        tensors.setdefault(match["module"], {})[match["part"]] = tensor.float().numpy()
    modules = dict[str, AdaptedModule]()
    for module, parts in tensors.items():
        rank = _checked(path, module, parts)
        if rank != (said := _said_of(config, "rank_pattern", module, "r")):
            raise _not_convertible(
                path, f"its configuration says rank {said} of '{module}', whose matrices have {rank}"
            )
        modules[module] = AdaptedModule(parts, _scale(config, module, rank))
    base = str(config.base_model_name_or_path or "")
    return PeftFolder(path, modules, base, bool(getattr(config, "fan_in_fan_out", False)))


def _require_files(path: Path) -> None:
    for name, why in (
        (ADAPTER_FILE, "the configuration of an adapter"),
        (_WEIGHTS_FILE, "weights; pickles (.bin) are not read"),
    ):
        if not (path / name).is_file():
            raise OptimError.usage(
                "not-a-peft-folder",
                f"{path} is not an adapter of peft",
                f"it has no {name}, {why}",
                "name the folder that PeftModel.save_pretrained wrote",
            )
    try:
        told = json.loads((path / ADAPTER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptimError(
            "adapter-unreadable", f"{path / ADAPTER_FILE} cannot be read", str(error), "copy the folder again"
        ) from error
    if not isinstance(told, dict):
        raise OptimError(
            "adapter-unreadable",
            f"{path / ADAPTER_FILE} is not a configuration of an adapter",
            f"it holds a {type(told).__name__}",
            "copy the folder again",
        )


def _why_not(config: Any) -> str:
    """Why an adapter with this configuration cannot become inputs; empty where it can."""
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if kind not in ("LORA", "LOHA"):
        return f"it is {kind}; only LoRA, DoRA and LoHa are matrices beside a layer"
    if getattr(config, "modules_to_save", None):
        return f"it replaces whole layers (modules_to_save: {', '.join(map(str, config.modules_to_save))})"
    if getattr(config, "bias", "none") != "none":
        return f"it trains biases too (bias: {config.bias})"
    for name, what in (
        ("lora_bias", "it has biases of its own"),
        ("use_qalora", "QALoRA pools what goes in"),
        ("trainable_token_indices", "it replaces tokens"),
        ("layer_replication", "it replicates layers"),
        ("target_parameters", "it adapts parameters that are not layers"),
        ("alora_invocation_tokens", "it acts after some tokens only"),
        ("arrow_config", "it chooses among adapters with each token"),
        ("use_bdlora", "its matrices are of blocks"),
        ("kasa_config", "it is a variant of LoRA that optim was not tested with"),
        ("monteclora_config", "it is a variant of LoRA that optim was not tested with"),
        ("velora_config", "it is a variant of LoRA that optim was not tested with"),
    ):
        if getattr(config, name, None):
            return f"{what} ({name})"
    begun = str(getattr(config, "init_lora_weights", ""))
    if begun.startswith(_CHANGES_BASE):
        return (
            f"it belongs to other base weights: peft changes them when it loads it (init_lora_weights: {begun}); save "
            "it with path_initial_model_for_weight_conversion, which makes plain LoRA of it"
        )
    return ""


def _checked(path: Path, module: str, parts: Mapping[str, NDArray[Any]]) -> int:
    """The rank of a module; its parts are whole and go together."""
    if frozenset(parts) not in _COMPLETE or any(
        part.ndim != (1 if "magnitude" in name else 2) for name, part in parts.items()
    ):
        shapes = ", ".join(f"{name} {'x'.join(map(str, part.shape))}" for name, part in sorted(parts.items()))
        raise _not_convertible(path, f"'{module}' has {shapes}: that is not a linear layer with LoRA, DoRA or LoHa")
    pairs = [("lora_A", "lora_B")] if "lora_A" in parts else [("hada_w1_b", "hada_w1_a"), ("hada_w2_b", "hada_w2_a")]
    ranks = {size for low, high in pairs for size in (parts[low].shape[0], parts[high].shape[1])}
    if len(ranks) > 1:
        raise _not_convertible(path, f"the parts of '{module}' have ranks {sorted(ranks)}")
    return int(ranks.pop())


def _scale(config: Any, module: str, rank: int) -> float:
    """What peft multiplies the product of the matrices with."""
    name = "lora_alpha" if hasattr(config, "lora_alpha") else "alpha"
    alpha = float(_said_of(config, "alpha_pattern", module, name))
    return alpha / (math.sqrt(rank) if getattr(config, "use_rslora", False) else rank)


def _said_of(config: Any, pattern: str, module: str, name: str) -> Any:
    """What a configuration says of a module: by a pattern of names, or for all."""
    from peft.utils.other import get_pattern_key

    patterns = getattr(config, pattern, None) or {}
    return patterns.get(get_pattern_key(list(patterns), module), getattr(config, name))


def _not_convertible(path: Path, reason: str) -> OptimError:
    return OptimError.usage(
        "adapter-not-convertible",
        f"{path} cannot become inputs of a model",
        reason,
        "merge it: optim run PEFT_FOLDER -o DIR",
    )
