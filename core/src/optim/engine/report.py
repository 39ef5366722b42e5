"""For plugin ``report`` of optim-plugins: what showing a report to people needs of the engine.

Each name is imported when it is first used: every run loads the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.load_script import LOAD_TEXT as LOAD_TEXT
    from optim._engine.reports.parts import GenerationReport as GenerationReport
    from optim._engine.reports.parts import StartReport as StartReport
    from optim._engine.reports.schema import PAGE_FILE as PAGE_FILE
    from optim._engine.reports.schema import OutputReport as OutputReport
    from optim._engine.reports.schema import PointReport as PointReport
    from optim._engine.reports.schema import Report as Report
    from optim._engine.reports.schema import ResultReport as ResultReport
    from optim._engine.reports.schema import StepReport as StepReport
    from optim._engine.reports.words import TARGET_COLUMNS as TARGET_COLUMNS
    from optim._engine.reports.words import about_targets as about_targets
    from optim._engine.reports.words import cores_text as cores_text
    from optim._engine.reports.words import count_text as count_text
    from optim._engine.reports.words import counts_text as counts_text
    from optim._engine.reports.words import device_text as device_text
    from optim._engine.reports.words import drift_text as drift_text
    from optim._engine.reports.words import export_text as export_text
    from optim._engine.reports.words import figure_text as figure_text
    from optim._engine.reports.words import generation_figures as generation_figures
    from optim._engine.reports.words import latency_text as latency_text
    from optim._engine.reports.words import not_here as not_here
    from optim._engine.reports.words import operator_time_text as operator_time_text
    from optim._engine.reports.words import options_text as options_text
    from optim._engine.reports.words import output_texts as output_texts
    from optim._engine.reports.words import ratio_text as ratio_text
    from optim._engine.reports.words import result_drift_text as result_drift_text
    from optim._engine.reports.words import share_text as share_text
    from optim._engine.reports.words import target_rows as target_rows
    from optim._engine.reports.words import throughput_text as throughput_text
    from optim._engine.reports.words import worst_text as worst_text
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
