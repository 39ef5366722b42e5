"""Graphs that point into the user's own weight files."""

from __future__ import annotations

from pathlib import Path

from optim.model import Model


def deliver_linked(model: Model, folder: Path, *, name: str) -> Path:
    """Soon."""
    raise NotImplementedError
