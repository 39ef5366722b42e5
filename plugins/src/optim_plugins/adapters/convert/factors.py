"""The form that graphs take, from what peft saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim_plugins.adapters.convert.peft_folder import AdaptedModule
from optim_plugins.adapters.form import Factors, khatri_rao

BaseWeight = Callable[[], NDArray[Any]]
"""The weight of the base layer, shape (out, in): only DoRA asks for it."""


def factors_of(module: AdaptedModule, base_weight: BaseWeight) -> Factors:
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
