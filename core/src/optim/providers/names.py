"""Names of ONNX Runtime's execution providers, and its optimizers that break a graph on one of them.

optim switches such an optimizer off for such graphs. ``GroupQueryAttentionFusion``, for CUDA alone, moves
RotaryEmbedding into a GroupQueryAttention. It keeps nine inputs: of one that has more (a mask is the eleventh) it makes
an invalid graph, https://github.com/microsoft/onnxruntime/issues/29524.
"""

from __future__ import annotations

from pathlib import Path

from optim.model import SessionConfig
from optim.target import Target

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"


GROUP_QUERY_FUSION = "GroupQueryAttentionFusion"
_KEPT_INPUTS = 9


def settings_around_faults(path: Path, target: Target) -> SessionConfig:
    """Settings without which a graph does not open on a target; none for nearly all. Reads no weights."""
    if CUDA not in (target.provider, *target.also):
        return SessionConfig()
    import onnx  # plugins import this module while they load

    nodes = onnx.load(path, load_external_data=False).graph.node
    broken = any(node.op_type == "GroupQueryAttention" and len(node.input) > _KEPT_INPUTS for node in nodes)
    return SessionConfig(disabled_optimizers=(GROUP_QUERY_FUSION,)) if broken else SessionConfig()
