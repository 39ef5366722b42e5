"""From a folder of peft to arrays for the inputs of a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim import AdapterInput, OptimError
from optim.arrays import dtype_of
from optim.errors import some_of
from optim.source import CONFIG_FILE
from optim_plugins.adapted import Adapter
from optim_plugins.adapters.convert.peft_folder import AdaptedModule, PeftFolder, read_peft_folder
from optim_plugins.adapters.form import DOWN, GAIN, Factors, input_name, khatri_rao, role_arrays
from optim_plugins.adapters.packing import SCALES, Packing

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of a folder.

    Attributes:
        adapter: for the inputs of the model.
        modules: of the folder, by those of the model.
        ranks: of the modules, each once.
        left: modules of the model that the folder says nothing of; there the model computes its base.
    """

    adapter: Adapter
    modules: Mapping[str, str]
    ranks: tuple[int, ...]
    left: tuple[str, ...]


def convert(
    folder: Path, inputs: Sequence[AdapterInput], *, base: Path | None = None, version: int = 1, model_version: int = 0
) -> Converted:
    """Convert an adapter for a model.

    Args:
        folder: as peft saved it.
        inputs: adapter inputs of the model.
        base: folder of the model that the adapter was trained on; only DoRA needs it. By default what the adapter's own
            configuration names.
        version: of the adapter.
        model_version: of the model.

    Raises:
        OptimError[adapter-does-not-fit]: the model has no such modules, or others in size or rank.
        OptimError: as of :func:`read_peft_folder`; adapter-base-missing, adapter-base-quantized.
    """
    read = read_peft_folder(folder)
    taken = {(one.module, one.role): one for one in inputs}
    named = _match_modules(list(read.modules), sorted({one.module for one in inputs}), folder)
    arrays = {one.info.name: _zeros(one) for one in inputs if one.required or one.supplied_by}
    ranks = set()
    for module, wanted in named.items():

        def weight(module: str = module) -> NDArray[Any]:
            return _base_weight(read, module, base)

        factors = _factors_of(read.modules[module], weight)
        ranks.add(factors.down.shape[1])
        arrays |= _arrays(factors, wanted, taken, folder)
    left = tuple(sorted({one.module for one in inputs} - set(named.values())))
    adapter = Adapter(arrays, version, model_version)
    return Converted(adapter, {found: module for module, found in named.items()}, tuple(sorted(ranks)), left)


def _match_modules(ours: Sequence[str], theirs: Sequence[str], folder: Path) -> dict[str, str]:
    """For each module of an adapter that of the model: of the same name, or the one whose name ends as this one's.

    Raises:
        OptimError[adapter-does-not-fit]: there is none, or several.
    """
    found: dict[str, str] = {}
    missing = []
    for name in ours:
        fits = [other for other in theirs if other == name]
        fits = fits or [other for other in theirs if other.endswith(f".{name}") or name.endswith(f".{other}")]
        if len(fits) == 1 and fits[0] not in found.values():
            found[name] = fits[0]
        else:
            missing.append(name)
    if missing:
        named = some_of([f"'{name}'" for name in missing], _SHOWN)
        raise _does_not_fit(
            folder,
            f"the model has no inputs for {named}: it is another architecture, was exported with an adapter that "
            f"leaves these layers alone, or its export dropped them; it has '{theirs[0]}'",
        )
    return found


def _arrays(
    factors: Factors, module: str, taken: Mapping[tuple[str, str], AdapterInput], folder: Path
) -> dict[str, NDArray[Any]]:
    """The arrays of a module by input; of all its inputs, so that a gain that it does not have is none."""
    first = taken[module, DOWN]
    packing = Packing.of(first.details)
    if factors.gain is not None and (module, GAIN) not in taken:
        raise _does_not_fit(
            folder,
            f"it is DoRA, and the model has no input '{input_name(module, GAIN)}': it was exported with an adapter "
            "without magnitudes",
        )
    rank = _rank_of(first, packing)
    if rank is not None and rank < factors.down.shape[1]:
        raise _does_not_fit(folder, f"'{module}' has rank {factors.down.shape[1]}, and the model takes {rank}")
    if packing is not None and first.details.get("rows") != factors.down.shape[0]:
        raise _does_not_fit(
            folder, f"'{module}' takes {factors.down.shape[0]} numbers, and that of the model {first.details['rows']}"
        )
    dtype = dtype_of(taken[module, DOWN + SCALES].info.dtype if packing is not None else first.info.dtype)
    gain = factors.gain.astype(dtype) if factors.gain is not None else None
    typed = Factors(factors.down.astype(dtype), factors.up.astype(dtype), gain)
    found: dict[str, NDArray[Any]] = {}
    made = role_arrays(typed, rank, packing)
    for role, one in ((role, one) for (name, role), one in taken.items() if name == module):
        array, shape = made.get(role, _zeros(one)), one.info.shape or ()
        if len(shape) != array.ndim or any(
            isinstance(size, int) and size != got for size, got in zip(shape, array.shape, strict=True)
        ):
            sizes = "x".join(str(size) if isinstance(size, int) else "rank" for size in shape)
            raise _does_not_fit(folder, f"'{module}' is {'x'.join(map(str, array.shape))}, and the model takes {sizes}")
        found[one.info.name] = array
    return found


def _rank_of(down: AdapterInput, packing: Packing | None) -> int | None:
    """The rank that the graph fixes; None where any fits."""
    size = (down.info.shape or (None, None))[1 if packing is None else 0]
    return size if isinstance(size, int) else None


def _zeros(one: AdapterInput) -> NDArray[Any]:
    """What changes nothing."""
    shape = [size if isinstance(size, int) else 0 for size in one.info.shape or ()]
    return np.zeros(shape, dtype_of(one.info.dtype))


def _base_weight(read: PeftFolder, module: str, base: Path | None) -> NDArray[Any]:
    """The weight of a layer of the base, shape (out, in), from the safetensors of its folder.

    Raises:
        OptimError[adapter-base-missing]: its folder, or the weight in it, is not here.
        OptimError[adapter-base-quantized]: its weights are of 4 or 8 bit, as QLoRA trains on.
    """
    from safetensors import safe_open

    folder = base if base is not None else Path(read.base)
    if not folder.is_dir():
        raise OptimError.usage(
            "adapter-base-missing",
            f"{read.path} is DoRA, and the weights of its model are not here",
            f"it belongs to '{read.base}', which is not a folder on this machine",
            "name it: --base FOLDER_OF_THE_MODEL",
        )
    _refuse_quantized(folder, read.path)
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(str(file), framework="pt") as tensors:
            names = set(tensors.keys())
            fits = [name for name in names if name == f"{module}.weight"] or [
                name for name in names if name.endswith(f".{module}.weight") or f"{module}.weight".endswith(f".{name}")
            ]
            if len(fits) == 1:
                weight: NDArray[Any] = tensors.get_tensor(fits[0]).float().numpy()
                return np.ascontiguousarray(weight.T) if read.transposed else weight
    raise OptimError.usage(
        "adapter-base-missing",
        f"{folder} does not have the layer that {read.path} adapts",
        f"there is no '{module}.weight' in its safetensors",
        "name the folder of the model that the adapter was trained on: --base FOLDER",
    )


def _refuse_quantized(folder: Path, adapter: Path) -> None:
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    method = config.get("quantization_config") if isinstance(config, dict) else None
    if method:
        raise OptimError.usage(
            "adapter-base-quantized",
            f"{adapter} is DoRA on quantized weights",
            f"{folder} holds weights of {method.get('quant_method', 'a few bits')}, and magnitudes need floats",
            "save the model dequantized (model.dequantize().save_pretrained(FOLDER, save_original_format=False)), and "
            "name it: --base FOLDER",
        )


def _does_not_fit(folder: Path, cause: str) -> OptimError:
    return OptimError.usage(
        "adapter-does-not-fit",
        f"{folder} does not fit the model",
        cause,
        "extract from a model that was exported with an adapter of the same layers: optim run PEFT_FOLDER "
        "--with adapters.extract",
    )


BaseWeight = Callable[[], NDArray[Any]]
"""The weight of the base layer, shape (out, in): only DoRA asks for it."""


def _factors_of(module: AdaptedModule, base_weight: BaseWeight) -> Factors:
    """The arrays of a module for its inputs, in float32."""
    parts = module.tensors
    if "hada_w1_a" in parts:
        down, up = khatri_rao(parts["hada_w1_a"], parts["hada_w1_b"], parts["hada_w2_a"], parts["hada_w2_b"])
        return Factors(down, _scaled(up, module.scale))
    down, up = np.ascontiguousarray(parts["lora_A"].T), np.ascontiguousarray(parts["lora_B"].T)
    if "lora_magnitude_vector" not in parts:
        return Factors(down, _scaled(up, module.scale))
    added = module.scale * (parts["lora_B"].astype(np.float64) @ parts["lora_A"].astype(np.float64))
    norm = np.linalg.norm(base_weight().astype(np.float64) + added, axis=1)
    gain = parts["lora_magnitude_vector"].astype(np.float64) / norm
    return Factors(down, _scaled(up, module.scale * gain), (gain - 1).astype(np.float32))


def _scaled(up: NDArray[Any], scale: NDArray[Any] | float) -> NDArray[Any]:
    return (up.astype(np.float64) * scale).astype(np.float32)
