"""For `optim inspect`, a verb of plugin ``diagnose``: what looking at a file and at a machine needs of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.backends.held import held_backend as held_backend
    from optim._engine.graphs.user_files import check_file as check_file
    from optim._engine.machine import this_machine as this_machine
    from optim._engine.plugins.registry import Registry as Registry
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim._engine.plugins.registry import require_target as require_target
    from optim._engine.reports.words import count_text as count_text
    from optim._engine.reports.words import share_text as share_text
    from optim.onnx.checker import malformed_is_invalid as malformed_is_invalid
    from optim.onnx.external_data import is_file as is_file
    from optim.onnx.external_data import tensor_bytes as tensor_bytes
    from optim.onnx.operators import count_operators as count_operators
    from optim.onnx.operators import node_work as node_work
    from optim.onnx.operators import walk_graphs as walk_graphs
    from optim.onnx.operators import walk_nodes as walk_nodes
    from optim.onnx.skeleton import read_skeleton as read_skeleton
    from optim.providers.assignment import computing_nodes as computing_nodes
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
