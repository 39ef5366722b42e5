"""Whether the libraries this plugin works with are installed, without importing them."""

from __future__ import annotations

import importlib.util

from optim import APPLICABLE, Applicable

INSTALL = "pip install 'torch>=2.8' 'transformers>=5.0'; without a GPU first: uv pip install torch --torch-backend=cpu"
"""On Linux torch alone brings the libraries of CUDA, some gigabytes."""


def torch_available() -> Applicable:
    """No, with how to install it, where there is no torch."""
    if importlib.util.find_spec("torch") is None:
        return Applicable.no(f"torch is not installed: {INSTALL}")
    return APPLICABLE


def transformers_available() -> Applicable:
    """No, with how to install it, where there is no transformers."""
    if importlib.util.find_spec("transformers") is None:
        return Applicable.no("transformers is not installed: pip install transformers safetensors")
    return torch_available()
