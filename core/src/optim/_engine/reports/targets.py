"""The table of targets that competed: how the original runs there, the best that was found, what became of each."""

from __future__ import annotations

from optim._engine.reports.schema import Report, TargetReport
from optim._engine.reports.words import NOTHING, figure_text, ratio_text

TARGET_COLUMNS = ("target", "runtime", "original", "drift", "best", "result")


def target_rows(report: Report) -> list[tuple[str, ...]]:
    """Rows as :data:`TARGET_COLUMNS` says; none where one target was asked for."""
    return [_row(target) for target in report.targets]


def about_targets(report: Report) -> str:
    """What the figures of the table are, in a sentence."""
    return f"ratios are to the original on {report.baseline}; columns original and drift: each target with its defaults"


def _row(target: TargetReport) -> tuple[str, ...]:
    runs = " ".join([target.runtime, *map(str, _version(target))]) or NOTHING
    drift = target.original_drift.relative_error if target.original_drift else None
    became = f"{target.status}: {target.reason}" if target.reason else target.status
    return (
        target.name,
        runs,
        ratio_text(target.original_ratio),
        figure_text(drift),
        ratio_text(target.best_ratio),
        became,
    )


def _version(target: TargetReport) -> list[str]:
    """The version of what runs it, where that goes by the runtime's own name."""
    return [version for name, version in target.versions.items() if name == target.runtime][:1]
