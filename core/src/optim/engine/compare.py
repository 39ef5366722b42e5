"""The part of the engine that compares models, for `optim verify` and `optim bench`, verbs of plugin ``diagnose``.

Each name is imported when it is first used: every run loads the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.api.bench import is_program as is_program
    from optim._engine.compare.declared import hidden_differences as hidden_differences
    from optim._engine.compare.place import Place as Place
    from optim._engine.feeds.unread_rows import unread_rows as unread_rows
    from optim._engine.gate.budget import Budget as Budget
    from optim._engine.gate.drift import DIFFERENCES as DIFFERENCES
    from optim._engine.gate.drift import is_rounding as is_rounding
    from optim._engine.gate.drift import not_judged as not_judged
    from optim._engine.gate.drift import worst_drift as worst_drift
    from optim._engine.gate.drift import worst_question as worst_question
    from optim._engine.goals.generating import GENERATE as GENERATE
    from optim._engine.goals.generating import GENERATOR as GENERATOR
    from optim._engine.jobs.lane import LaneClock as LaneClock
    from optim._engine.jobs.start_up import Ready as Ready
    from optim._engine.plugins.chosen_targets import ChosenTargets as ChosenTargets
    from optim._engine.plugins.chosen_targets import choose_targets as choose_targets
    from optim._engine.plugins.registry import Registry as Registry
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim._engine.plugins.registry import require_target as require_target
    from optim._engine.reports.answers import Benchmark as Benchmark
    from optim._engine.reports.answers import ComparedFeeds as ComparedFeeds
    from optim._engine.reports.answers import ComparedTask as ComparedTask
    from optim._engine.reports.answers import GridBenchmark as GridBenchmark
    from optim._engine.reports.answers import TimedModel as TimedModel
    from optim._engine.reports.answers import TimedShape as TimedShape
    from optim._engine.reports.answers import Verification as Verification
    from optim._engine.reports.parts import drift_report as drift_report
    from optim._engine.reports.parts import generation_report as generation_report
    from optim._engine.reports.parts import goal_ratio_report as goal_ratio_report
    from optim._engine.reports.parts import throughput_report as throughput_report
    from optim._engine.reports.renderer import RENDERER as RENDERER
    from optim._engine.reports.schema import OutputReport as OutputReport
    from optim._engine.reports.words import count_text as count_text
    from optim._engine.reports.words import figure_text as figure_text
    from optim._engine.reports.words import output_texts as output_texts
    from optim._engine.reports.words import worst_text as worst_text
    from optim._engine.runs.lab.conditions import Conditions as Conditions
    from optim._engine.runs.lab.conditions import about_made_up as about_made_up
    from optim._engine.runs.lab.conditions import other_model as other_model
    from optim._engine.runs.lab.conditions import require_timed as require_timed
    from optim._engine.runs.lab.conditions import workbench_for as workbench_for
    from optim._engine.search.measure.efforts import Effort as Effort
    from optim._engine.search.measure.racing import Wanted as Wanted
    from optim._engine.search.measure.racing import check_candidate as check_candidate
    from optim._engine.search.measure.racing import race_candidates as race_candidates
    from optim._engine.search.settings import RunSettings as RunSettings
    from optim._engine.search.state import Candidate as Candidate
    from optim._engine.search.state import LaneResult as LaneResult
    from optim._engine.search.targets.entrants import none_runs as none_runs
    from optim._engine.search.workbench import Workbench as Workbench
    from optim._engine.sources.naming import is_genai_folder as is_genai_folder
    from optim._engine.store import names_in_messages as names_in_messages
    from optim.cli_kit.options import mismatch_option as mismatch_option
    from optim.jobs.wire import to_wire as to_wire
    from optim.providers.names import CPU as CPU
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
