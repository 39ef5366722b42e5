"""The targets of torch itself: how it runs a module, on which device and in which type.

``optim bench FOLDER --beside torch-compile:device=cuda,dtype=float16``
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from optim import Target
from optim.errors import OptimError, unknown_name
from optim_plugins.torch.available import torch_available

MODES = ("eager", "compile", "script")
"""As it is, through torch.compile, or traced by TorchScript."""

_DEVICES = ("cpu", "cuda")
_DTYPES = ("float32", "float16", "bfloat16")
_SETTINGS = {"device": _DEVICES, "dtype": _DTYPES}

_CUDA_LIBRARIES = ("libtorch_cuda.so", "torch_cuda.dll")


def torch_targets() -> tuple[Target, ...]:
    """A target for each mode, on the CPU and in the module's own type unless the user says otherwise."""
    return tuple(_of(Target(f"torch-{mode}", "torch", mode, runs_sources=True), {}) for mode in MODES)


def _of(plain: Target, chosen: Mapping[str, str]) -> Target:
    device = chosen.get("device", "cpu")
    return replace(
        plain,
        provider_options=dict(chosen),
        device=f"{'NVIDIA GPU' if device == 'cuda' else 'CPU'}, by torch itself",
        probe=lambda: _unavailable(device),
        configure=lambda settings: _configured(plain, settings),
    )


def _configured(plain: Target, settings: Mapping[str, str]) -> Target:
    """``torch-eager:device=cuda,dtype=float16``.

    Raises:
        OptimError[unknown-target-setting]: lists the near ones.
        OptimError[bad-target-setting]: a value that the key does not take.
    """
    for key, value in settings.items():
        if key not in _SETTINGS:
            raise unknown_name("target setting", key, _SETTINGS, fix=f"--beside {plain.name}:dtype=float16")
        if value not in _SETTINGS[key]:
            raise OptimError.usage(
                "bad-target-setting",
                f"target {plain.name} has no {key}={value}",
                f"{key} is one of {', '.join(_SETTINGS[key])}",
                f"--beside {plain.name}:{key}={_SETTINGS[key][1]}",
            )
    return _of(plain, settings)


def _unavailable(device: str) -> str | None:
    """Why torch cannot run there, without importing it."""
    available = torch_available()
    if not available:
        return available.reason
    found = importlib.util.find_spec("torch") if device == "cuda" else None
    folders = [Path(place) / "lib" for place in (found.submodule_search_locations or ())] if found else []
    if device == "cuda" and not any((folder / name).is_file() for folder in folders for name in _CUDA_LIBRARIES):
        return "the torch that is installed is a build for the CPU: pip uninstall -y torch && pip install torch (Linux)"
    return None
