"""For optim-testing: what the conformance kits and `optim plugins new` need of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.backends.held import HeldBackend as HeldBackend
    from optim._engine.backends.session_contract import clock_doubt as clock_doubt
    from optim._engine.backends.session_contract import executed_defect as executed_defect
    from optim._engine.backends.session_contract import outputs_defect as outputs_defect
    from optim._engine.backends.session_contract import ran_elsewhere as ran_elsewhere
    from optim._engine.backends.session_contract import times_defect as times_defect
    from optim._engine.compare.comparison import compare_raw as compare_raw
    from optim._engine.compare.distrust import Untouched as Untouched
    from optim._engine.compare.distrust import checked_model as checked_model
    from optim._engine.compare.distrust import require_fit as require_fit
    from optim._engine.compare.original import outputs_with_padding as outputs_with_padding
    from optim._engine.compare.place import mapped_feeds as mapped_feeds
    from optim._engine.compare.place import mapped_outputs as mapped_outputs
    from optim._engine.compare.task import count as count
    from optim._engine.compare.task import value_of as value_of
    from optim._engine.feeds.feedset import FeedSet as FeedSet
    from optim._engine.feeds.sources import load_feeds as load_feeds
    from optim._engine.feeds.synthesize import synthesize_feeds as synthesize_feeds
    from optim._engine.gate.drift import NO_DRIFT as NO_DRIFT
    from optim._engine.gate.drift import Drift as Drift
    from optim._engine.gate.drift import worst_drift as worst_drift
    from optim._engine.gate.outputs import compare_sample as compare_sample
    from optim._engine.gate.outputs import elements as elements
    from optim._engine.gate.outputs import variations_of as variations_of
    from optim._engine.graphs.ingest import ingest as ingest
    from optim._engine.handed_on import hand_on as hand_on
    from optim._engine.jobs.job import Job as Job
    from optim._engine.jobs.offer import Calibration as Calibration
    from optim._engine.jobs.offer import context_for as context_for
    from optim._engine.jobs.offer import proposed_options as proposed_options
    from optim._engine.plugins.checks import class_defect as class_defect
    from optim._engine.plugins.checks import command_defect as command_defect
    from optim._engine.plugins.checks import command_verb as command_verb
    from optim._engine.plugins.checks import metric_defect as metric_defect
    from optim._engine.plugins.checks import pass_defect as pass_defect
    from optim._engine.plugins.checks import target_defect as target_defect
    from optim._engine.plugins.discovery import HEAVY as HEAVY
    from optim._engine.plugins.discovery import PLUGIN_NAME as PLUGIN_NAME
    from optim._engine.plugins.discovery import installed_names as installed_names
    from optim._engine.plugins.offers import OfferedPass as OfferedPass
    from optim._engine.plugins.ordering import order as order
    from optim._engine.plugins.plugin import PluginInfo as PluginInfo
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim.jobs.doing import is_worker as is_worker
    from optim.jobs.process import WorkerProcess as WorkerProcess
    from optim.onnx.adapter_inputs import lost_adapter_inputs as lost_adapter_inputs
    from optim.onnx.files import save_in_store as save_in_store
    from optim.onnx.sessions import PLAIN_CPU as PLAIN_CPU
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
