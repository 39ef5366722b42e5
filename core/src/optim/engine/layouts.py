"""For plugin ``layouts`` of optim-plugins: what laying a run's result out needs of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.cli.described_options import describe_options as describe_options
    from optim._engine.cli.request import how_options as how_options
    from optim._engine.gate.drift import is_rounding as is_rounding
    from optim._engine.gate.drift import worst_drift as worst_drift
    from optim._engine.machine import this_machine as this_machine
    from optim._engine.plugins.registry import Registry as Registry
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim._engine.recipes.lock import LOCK_FILE as LOCK_FILE
    from optim._engine.recipes.lock import Lock as Lock
    from optim._engine.recipes.lock import load_recipe_or_lock as load_recipe_or_lock
    from optim._engine.reports.schema import DELIVERY_FILE as DELIVERY_FILE
    from optim._engine.reports.schema import LayoutReport as LayoutReport
    from optim._engine.reports.schema import OpenedCost as OpenedCost
    from optim._engine.runs.compare.prepared import OF_ANOTHER_GRAPH as OF_ANOTHER_GRAPH
    from optim._engine.runs.delivering import LayoutRequest as LayoutRequest
    from optim._engine.runs.delivering import Say as Say
    from optim._engine.runs.delivering import of_several as of_several
    from optim._engine.runs.folder import read_mark as read_mark
    from optim._engine.runs.session_file import MODEL_FILE as MODEL_FILE
    from optim._engine.runs.session_trust import read_session_file as read_session_file
    from optim._engine.sources.export_file import read_export_file as read_export_file
    from optim.onnx.digests import operations_digest as operations_digest
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
