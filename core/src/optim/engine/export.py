"""For plugin ``export`` of optim-plugins: what the pipeline of exports needs of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.backends.held import held_backend as held_backend
    from optim._engine.cli.request import parse_named as parse_named
    from optim._engine.cli.request import source_options as source_options
    from optim._engine.cli.request import source_request as source_request
    from optim._engine.compare.place import mapped_feeds as mapped_feeds
    from optim._engine.compare.place import mapped_outputs as mapped_outputs
    from optim._engine.feeds.feedset import FeedSet as FeedSet
    from optim._engine.feeds.feedset import FeedWriter as FeedWriter
    from optim._engine.gate.budget import require_max_drift as require_max_drift
    from optim._engine.gate.drift import CAP as CAP
    from optim._engine.gate.drift import FLOOR as FLOOR
    from optim._engine.gate.drift import Drift as Drift
    from optim._engine.gate.drift import OutputComparison as OutputComparison
    from optim._engine.gate.drift import merge_samples as merge_samples
    from optim._engine.gate.drift import worst_drift as worst_drift
    from optim._engine.gate.outputs import compare_output as compare_output
    from optim._engine.gate.variation import Variation as Variation
    from optim._engine.gate.variation import epsilon as epsilon
    from optim._engine.gate.variation import measure as measure
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
    from optim._engine.plugins.versions import core_digest as core_digest
    from optim._engine.plugins.versions import source_digest as source_digest
    from optim._engine.plugins.versions import version_keys as version_keys
    from optim._engine.reports.answers import ExportedComponent as ExportedComponent
    from optim._engine.reports.build import drift_report as drift_report
    from optim._engine.reports.schema import ExportReport as ExportReport
    from optim._engine.reports.schema import ExportStepReport as ExportStepReport
    from optim._engine.reports.words import counts_text as counts_text
    from optim._engine.reports.words import figure_text as figure_text
    from optim._engine.runs.folder import RunFolder as RunFolder
    from optim._engine.runs.session_file import SessionFile as SessionFile
    from optim._engine.runs.session_file import write_session_files as write_session_files
    from optim._engine.sources.export_file import EXPORT_FILE as EXPORT_FILE
    from optim._engine.sources.export_file import ComponentFile as ComponentFile
    from optim._engine.sources.export_file import ExportFile as ExportFile
    from optim._engine.sources.export_file import KeptFiles as KeptFiles
    from optim._engine.sources.export_file import KnownExport as KnownExport
    from optim._engine.sources.export_file import export_file as export_file
    from optim._engine.sources.export_file import read_export_file as read_export_file
    from optim._engine.sources.export_file import write_export_file as write_export_file
    from optim._engine.sources.exported import ROUNDING as ROUNDING
    from optim._engine.sources.exported import Choice as Choice
    from optim._engine.sources.exported import ExportConditions as ExportConditions
    from optim._engine.sources.exported import ExportedGraph as ExportedGraph
    from optim._engine.sources.exported import SourceDrift as SourceDrift
    from optim._engine.sources.exported import SourceQuestion as SourceQuestion
    from optim._engine.sources.naming import is_ours as is_ours
    from optim._engine.sources.naming import needs_export as needs_export
    from optim._engine.store import Store as Store
    from optim._engine.store import cache_key as cache_key
    from optim.decoders.conventions import file_shares_past as file_shares_past
    from optim.decoders.conventions import why_not_taken as why_not_taken
    from optim.layout.placing import CARRIED as CARRIED
    from optim.onnx.external_data import link as link
    from optim.onnx.files import EXTERNAL_FROM_BYTES as EXTERNAL_FROM_BYTES
    from optim.onnx.files import deliver_linked as deliver_linked
    from optim.onnx.files import is_whole as is_whole
    from optim.onnx.sessions import PLAIN_CPU as PLAIN_CPU
    from optim.providers.memory import mapped_config as mapped_config
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
