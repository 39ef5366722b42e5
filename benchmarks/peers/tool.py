"""What a peer is: a tool with a label, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """What a peer is given.

    Attributes:
        model: the original.
        out: an empty folder.
        calib: samples named ``<i>/<input>``.
        kind: what the optimizer of onnxruntime.transformers calls the architecture.
        heads: attention heads; 0: unknown.
        hidden: width; 0: unknown.
    """

    model: Path
    out: Path
    calib: Path
    kind: str
    heads: int
    hidden: int

    @property
    def result(self) -> Path:
        """Where the model goes."""
        return self.out / "model.onnx"


Tool = tuple[str, Callable[[Job], None]]
"""What it is called in tables, and what does it."""
