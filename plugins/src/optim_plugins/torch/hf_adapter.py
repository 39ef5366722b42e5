"""A folder of a LoRA adapter."""

from __future__ import annotations

from pathlib import Path

from optim import SourceRequest
from optim_plugins.torch.hf_folder import Loaded


def load_adapter(folder: Path, request: SourceRequest) -> Loaded:
    """Soon."""
    raise NotImplementedError
