"""For plugin ``export`` of optim-plugins: what the pipeline of exports needs of the engine.

Each name is imported when it is first used: every run loads the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.backends.held import held_backend as held_backend
    from optim._engine.cli.request import parse_named as parse_named
    from optim._engine.cli.request import source_options as source_options
    from optim._engine.cli.request import source_request as source_request
    from optim._engine.feeds.feedset import FeedSet as FeedSet
    from optim._engine.feeds.feedset import FeedWriter as FeedWriter
    from optim._engine.gate.drift import OutputComparison as OutputComparison
    from optim._engine.gate.drift import merge_samples as merge_samples
    from optim._engine.gate.drift import worst_drift as worst_drift
    from optim._engine.gate.max_loss import require_max_drift as require_max_drift
    from optim._engine.goals.generating import loading_script as loading_script
    from optim._engine.graphs.ingest import store_graph as store_graph
    from optim._engine.jobs.job import Job as Job
    from optim._engine.jobs.recorded import recording as recording
    from optim._engine.jobs.runner import Runner as Runner
    from optim._engine.json_file import read_json as read_json
    from optim._engine.load_script import LOAD_TEXT as LOAD_TEXT
    from optim._engine.plugins.offers import OfferedPass as OfferedPass
    from optim._engine.plugins.registry import Registry as Registry
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim._engine.plugins.registry import require_target as require_target
    from optim._engine.plugins.versions import core_digest as core_digest
    from optim._engine.plugins.versions import source_digest as source_digest
    from optim._engine.plugins.versions import version_keys as version_keys
    from optim._engine.reports.answers import ExportedComponent as ExportedComponent
    from optim._engine.reports.schema import ExportStepReport as ExportStepReport
    from optim._engine.reports.words import counts_text as counts_text
    from optim._engine.reports.words import figure_text as figure_text
    from optim._engine.runs.folder import RunFolder as RunFolder
    from optim._engine.runs.session_file import write_session_files as write_session_files
    from optim._engine.sources.evidence import INDEX as INDEX
    from optim._engine.sources.evidence import LIMITS as LIMITS
    from optim._engine.sources.evidence import Evidence as Evidence
    from optim._engine.sources.evidence import RecordedComponent as RecordedComponent
    from optim._engine.sources.evidence import RecordedTrial as RecordedTrial
    from optim._engine.sources.evidence import as_taken as as_taken
    from optim._engine.sources.evidence import compare_step as compare_step
    from optim._engine.sources.evidence import part_of as part_of
    from optim._engine.sources.evidence import place_of as place_of
    from optim._engine.sources.evidence import read_evidence as read_evidence
    from optim._engine.sources.evidence import steps_of as steps_of
    from optim._engine.sources.evidence import variations_of_source as variations_of_source
    from optim._engine.sources.export_file import EXPORT_FILE as EXPORT_FILE
    from optim._engine.sources.export_file import read_export_file as read_export_file
    from optim._engine.sources.export_file import write_export_file as write_export_file
    from optim._engine.sources.exported import Choice as Choice
    from optim._engine.sources.exported import ExportConditions as ExportConditions
    from optim._engine.sources.exported import ExportedSource as ExportedSource
    from optim._engine.sources.exported import Graph as Graph
    from optim._engine.sources.exported import SourceStep as SourceStep
    from optim._engine.sources.exported import Verified as Verified
    from optim._engine.sources.naming import fetched as fetched
    from optim._engine.sources.naming import is_ours as is_ours
    from optim._engine.sources.naming import needs_export as needs_export
    from optim._engine.sources.structure import require_structure as require_structure
    from optim._engine.store import Store as Store
    from optim._engine.store import cache_key as cache_key
    from optim.jobs.wire import to_wire as to_wire
    from optim.layout.placing import CARRIED as CARRIED
    from optim.onnx.files import EXTERNAL_FROM_BYTES as EXTERNAL_FROM_BYTES
    from optim.onnx.files import deliver_linked as deliver_linked
    from optim.onnx.files import is_whole as is_whole
    from optim.onnx.linked import link as link
    from optim.onnx.sessions import PLAIN_CPU as PLAIN_CPU
    from optim.providers.memory import mapped_config as mapped_config
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
