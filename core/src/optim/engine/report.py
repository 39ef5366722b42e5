"""For plugin ``report`` of optim-plugins: what showing a report to people needs of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.load_script import LOAD_TEXT as LOAD_TEXT
    from optim._engine.reports.schema import PAGE_FILE as PAGE_FILE
    from optim._engine.reports.schema import DeviceReport as DeviceReport
    from optim._engine.reports.schema import ExportReport as ExportReport
    from optim._engine.reports.schema import GenerationReport as GenerationReport
    from optim._engine.reports.schema import OutputReport as OutputReport
    from optim._engine.reports.schema import PointReport as PointReport
    from optim._engine.reports.schema import Report as Report
    from optim._engine.reports.schema import ResultReport as ResultReport
    from optim._engine.reports.schema import SourceDriftReport as SourceDriftReport
    from optim._engine.reports.schema import StartReport as StartReport
    from optim._engine.reports.schema import StepReport as StepReport
    from optim._engine.reports.schema import TargetReport as TargetReport
    from optim._engine.reports.schema import ThroughputReport as ThroughputReport
    from optim._engine.reports.words import cores_text as cores_text
    from optim._engine.reports.words import count_text as count_text
    from optim._engine.reports.words import counts_text as counts_text
    from optim._engine.reports.words import figure_text as figure_text
    from optim._engine.reports.words import output_texts as output_texts
    from optim._engine.reports.words import ratio_text as ratio_text
    from optim._engine.reports.words import share_text as share_text
    from optim._engine.reports.words import worst_text as worst_text
    from optim.cli_kit.output import options_text as options_text
    from optim.cli_kit.output import tabbed as tabbed
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
