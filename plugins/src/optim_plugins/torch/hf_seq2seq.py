"""Soon."""

from __future__ import annotations

from typing import Any

from optim import Source, SourceRequest


def seq2seq_source(model: Any, request: SourceRequest) -> Source:
    """Soon."""
    raise NotImplementedError
