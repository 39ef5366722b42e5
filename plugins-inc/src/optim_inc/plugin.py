"""The plugin ``inc``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Pass, Target, hookimpl
from optim.providers import CPU
from optim_inc.environment import ISOLATION
from optim_inc.quantize_aware_of_accuracy import QuantizeAwareOfAccuracy
from optim_inc.quantize_dynamic import QuantizeDynamic
from optim_inc.quantize_static import QuantizeStatic
from optim_inc.quantize_weights import QuantizeWeights

OPTIM_HOOK_API = 1
OPTIM_ISOLATED = ISOLATION


@hookimpl
def optim_quantize(target: Target) -> Sequence[type[Pass]]:
    """Quantization for ONNX Runtime on the CPU."""
    if target.backend != "ort" or target.provider != CPU:
        return ()
    return QuantizeDynamic, QuantizeStatic, QuantizeWeights, QuantizeAwareOfAccuracy
