"""Execution providers of ONNX Runtime: what they need to start, and which of them ran what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.providers.assignment import RECORD_ASSIGNMENT as RECORD_ASSIGNMENT
    from optim.providers.assignment import assigned_nodes as assigned_nodes
    from optim.providers.assignment import nodes_by_provider as nodes_by_provider
    from optim.providers.assignment import provider_shares as provider_shares
    from optim.providers.names import CPU as CPU
    from optim.providers.names import CUDA as CUDA
    from optim.providers.names import GROUP_QUERY_FUSION as GROUP_QUERY_FUSION
    from optim.providers.names import TENSORRT as TENSORRT
    from optim.providers.start import BUILD_COMMAND as BUILD_COMMAND
    from optim.providers.start import CUDA_COMMAND as CUDA_COMMAND
    from optim.providers.start import TENSORRT_COMMAND as TENSORRT_COMMAND
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
