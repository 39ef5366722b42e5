"""Which operators onnxruntime-web has on WebGPU and WebNN, by the tables of its own package."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from optim import ExitStatus, Model, OptimError
from optim.onnx import operator_counts
from optim_prepost import PACKAGE


@dataclass(frozen=True, slots=True)
class JudgedPage:
    """A model's operators against one table.

    Attributes:
        provider: ``webgpu`` or ``webnn``.
        version: of onnxruntime-web, whose table it is.
        operators: kinds of operators in the model, a count.
        missing: those that the table does not have at the model's opset.
    """

    provider: str
    version: str
    operators: int
    missing: tuple[str, ...]


_FOLDED = {"Constant"}
"""Made into weights when a model is opened, whatever the provider."""


@cache
def tables() -> dict[str, Any]:
    """``operators.json``, which ``make_operator_tables.py`` makes."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("operators.json").read_text(encoding="utf-8"))
    return found


def judge(provider: str, operators: Iterable[str], opset: int) -> JudgedPage:
    """Look operators (``Conv``, ``com.microsoft:Gelu``) up in the table of a provider."""
    table, asked = tables()[provider], sorted(set(operators) - _FOLDED)
    missing = tuple(name for name in asked if not _has(table.get(name), opset if ":" not in name else 1))
    return JudgedPage(provider, tables()["version"], len(asked), missing)


def require_kernels(model: Model, provider: str) -> None:
    """Refuse an operator of onnxruntime's own that a provider lacks: parts of it would do, and would stay there.

    Raises:
        OptimError[not-on-webgpu]: names it.
    """
    missing = judge(provider, operator_counts(model.path), model.opset.get("", 1)).missing
    own = [name for name in missing if ":" in name]
    if own:
        raise OptimError(
            "not-on-webgpu",
            f"{own[0].partition(':')[2]} would run outside of {provider}",
            f"the table of onnxruntime-web {tables()['version']} has no kernel for {', '.join(own)}",
            "leave out the pass that writes it",
            PACKAGE,
            ExitStatus.NOT_HELD,
        )


def _has(versions: str | None, opset: int) -> bool:
    """Whether an operator that came with one of these ranges is used at an opset, e.g. ``7-12,13+`` at 18."""
    for part in (versions or "").split(","):
        first, dash, last = part.partition("-")
        if part.endswith("+") and opset >= int(part[:-1]):
            return True
        if part and not part.endswith("+") and int(first) <= opset <= int(last if dash else first):
            return True
    return False
