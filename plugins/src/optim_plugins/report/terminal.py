"""The verdict and the steps in the terminal; everything else is in ``report.html``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from optim.cli_kit import NOTHING, printable, size_text
from optim.engine.report import (
    Report,
    StartReport,
    StepReport,
    figure_text,
    options_text,
    ratio_text,
    share_text,
    tabbed,
)
from optim_plugins.report.words import (
    TARGET_COLUMNS,
    about_targets,
    best_of,
    device_text,
    drift_text,
    export_text,
    generation_figures,
    latency_text,
    not_here,
    result_drift_text,
    target_rows,
    throughput_text,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_STYLES = {"kept": "green", "dropped": "yellow", "failed": "red", "not-applicable": "dim", "skipped": "dim"}
_VERDICTS = {"improved": "green", "prepared": "green", "unchanged": "cyan", "budget-missed": "red", "failed": "red"}
_COLUMNS = ("step", "pass", "ratio", "drift", "why")
_FIGURES = ("pick", "ratio", "size", "drift", "original", "best")
_TABLE_WIDTH = 100
"""Columns from which reasons have some 40 of their own in a table; they take more lines than words with less."""
_FIGURES_WIDTH = 30
"""Columns of a figure before and after, beside its name."""
_NEXT_BEST = 5
"""Rows of what was not kept: more push the verdict off the screen."""


def print_report(report: Report, console: Console, *, page: str, verbose: bool, debug: bool) -> None:
    """Prints what broke, the verdict, the figures, the kept steps, and the best of what was not kept."""
    report = Report.model_validate(_printable(report.model_dump(by_alias=True)))
    for broken in report.broken:
        _say(console, str(broken.diagnosis))
    console.print(_verdict(report))
    _print_figures(report, console)
    if len(report.targets) > 1:
        _say(console, f"\n{about_targets(report)}:")
        _print_table(TARGET_COLUMNS, target_rows(report), console)
    _print_steps(report, console, page, verbose=verbose)
    if verbose:
        _print_said(report, console)
    if debug:
        for step in report.steps:
            if step.trace:
                _say(console, f"\n{step.pass_name}:\n{step.trace.rstrip()}")
    for check in report.checks:
        _say(console, f"check: {check.name}: {check.status}: {check.text}")
    for laid in report.layouts:
        _say(console, f"layout {laid.line}")
    _print_points(report, console)
    _print_notes(report, console)


def _printable(value: Any) -> Any:
    """Texts of a report come from models, plugins and runtimes: none of them shall do anything to a terminal."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(inner) for key, inner in value.items()}
    return [_printable(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _say(console: Console, text: str) -> None:
    """A text as it is: nothing in it is markup, and no number of it is coloured."""
    console.print(text, markup=False, highlight=False)


def _print_figures(report: Report, console: Console) -> None:
    """How the model and its source compare, and the device and another; then what changed, before and after."""
    if report.export is not None:
        _say(console, f"  {export_text(report.export)}")
        if report.export.result_drift is not None:
            _say(console, f"  {result_drift_text(report.export.result_drift)}")
    if report.device is not None:
        _say(console, f"  {device_text(report.device)}")
    rows = list(_figures(report))
    widest = max((len(label) for label, _, _ in rows), default=0)
    in_columns = console.is_terminal and console.width >= widest + _FIGURES_WIDTH
    for label, before, after in rows:
        name = f"{label:<{widest}}{before:>11}" if in_columns else f"{label}: {before}"
        arrow = "  ->  " if in_columns else " -> "
        _say(console, f"  {name}" if report.status == "unchanged" else f"  {name}{arrow}{after}")


def _print_steps(report: Report, console: Console, page: str, *, verbose: bool) -> None:
    """The kept steps and the best of the others, or all of them."""
    rows = list(_rows(tuple(step for step in report.steps if not step.not_here)))
    shown = rows if verbose else _told(rows)
    if shown:
        console.print()
        _print_rows(shown, console)
    if verbose:
        for reason, names in not_here(report.steps).items():
            _say(console, f"  not tried here: {', '.join(names)}: {reason}")
    if others := len(rows) - len(shown):
        _say(console, f"  {others} other{'s' if others > 1 else ''}: {page}, or --verbose")


def _print_notes(report: Report, console: Console) -> None:
    """What the kept steps and the run have to say."""
    of_steps = (f"{step.pass_name}: {note}" for step in report.steps if step.status == "kept" for note in step.notes)
    for note in (*of_steps, *report.notes):
        _say(console, f"note: {note}")
    if report.feeds.origin == "synthesized":
        made_up = "optim synthesized the input samples: give real ones with --data"
        _say(console, f"note: {made_up}")
    if report.cached:
        took = f"in {report.first_seconds or 0:.0f} s (--no-cache repeats it)"
        _say(console, f"read from the cache: the same run was made before, {took}")


def _print_said(report: Report, console: Console) -> None:
    """What passes said and printed; notes of what was kept stand at the end anyway."""
    for exporting in report.export.steps if report.export else ():
        for line in exporting.printed:
            _say(console, f"  {exporting.name}: {line}")
    for step in report.steps:
        lines = [*(step.notes if step.status != "kept" else ()), *step.printed]
        told = [line for line in lines if line not in step.reason]
        if told:
            _say(console, f"\n  {step.pass_name}{_details(step, 1)} said:")
        for line in told:
            _say(console, f"    {line}")


def _print_points(report: Report, console: Console) -> None:
    """Other compromises, where there are any."""
    several = bool(report.targets)
    columns = ("pick", *(["target"] if several else []), "ratio", "size", "drift", "passes")
    front = report.front
    if len(front) < 2:
        return
    rows = [
        (
            str(point.number),
            *([point.target] if several else []),
            ratio_text(point.latency_ratio),
            size_text(point.size_bytes),
            figure_text(point.drift.relative_error),
            (" + ".join(step.partition(" (")[0] for step in point.chain) or NOTHING)
            + (" *" if point.delivered else ""),
        )
        for point in front
    ]
    other = next(point.number for point in front if not point.delivered)
    about = f"other results of this run, all checked (* is delivered; optim pick DIR {other} delivers another):"
    _say(console, f"\n{about}")
    _print_table(columns, rows, console)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """As a table where there is a terminal, words to the left and figures to the right; else with tabs."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if not console.is_terminal:
        _print_tabbed((columns, *rows), console)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in _FIGURES else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(Padding(table, (0, 0, 0, 2)))


def _verdict(report: Report) -> Text:
    from rich.text import Text

    return Text.assemble((report.status, f"bold {_VERDICTS[report.status]}"), ": ", report.reason)


def _figures(report: Report) -> Iterator[tuple[str, str, str]]:
    before, after = report.original, report.result
    if after is None:
        return
    if after.latency_ms is not None:
        yield "latency", latency_text(before.latency_ms), latency_text(after.latency_ms)
    if before.generation is not None and after.generation is not None:
        yield from generation_figures(before.generation, after.generation)
    if before.throughput is not None and after.throughput is not None:
        yield "throughput", throughput_text(before.throughput), throughput_text(after.throughput)
    if after.task is not None:
        yield after.task.metric.partition(":")[0], f"{after.task.original:.4g}", f"{after.task.value:.4g}"
    yield "size", size_text(before.size_bytes), size_text(after.size_bytes)
    if after.latency_ms is None and after.executed_on:
        shares = [f"{share_text(share)} of its nodes on {name}" for name, share in after.executed_on.items()]
        yield "ran", NOTHING, ", ".join(shares)
    if before.batch is not None and after.batch is not None:
        for name, title in (("batched", "batch sensitivity"), ("padded", "padding sensitivity")):
            old, new = getattr(before.batch, name), getattr(after.batch, name)
            if old is not None and new is not None:
                yield title, figure_text(old), figure_text(new)
    if before.start is not None and after.start is not None:
        yield "start-up", _start_text(before.start), _start_text(after.start)
    if before.peak_memory_bytes and after.peak_memory_bytes:
        yield "peak memory", size_text(before.peak_memory_bytes), size_text(after.peak_memory_bytes)


def _start_text(start: StartReport) -> str:
    """From opening a model to its first answer."""
    return latency_text(start.open_ms + start.first_ms)


def _rows(steps: tuple[StepReport, ...]) -> Iterator[tuple[StepReport, int]]:
    """Steps to show, each with how many attempts it stands for."""
    yield from ((step, 1) for step in steps if step.status == "kept")
    groups: dict[tuple[str, str, str], list[StepReport]] = {}
    for step in steps:
        if step.status != "kept":
            groups.setdefault((step.status, step.pass_name, step.target), []).append(step)
    order = list(_STYLES)
    for _, group in sorted(groups.items(), key=lambda item: order.index(item[0][0])):
        yield best_of(group), len(group)


def _told(rows: list[tuple[StepReport, int]]) -> list[tuple[StepReport, int]]:
    """What was kept, then what came nearest and what broke; what was never tried is for the page."""
    kept = [row for row in rows if row[0].status == "kept"]
    dropped = [row for row in rows if row[0].status == "dropped"]
    nearest = sorted(dropped, key=lambda row: row[0].ratio_to_original or float("inf"))
    broke = [row for row in rows if row[0].status == "failed"]
    return [*kept, *[*nearest[: _NEXT_BEST - min(len(broke), 1)], *broke][:_NEXT_BEST]]


def _print_rows(rows: list[tuple[StepReport, int]], console: Console) -> None:
    """As a table; one below the other where a terminal is narrow, and with tabs where there is none."""
    from rich.padding import Padding

    if not console.is_terminal:
        cells = ((step.status, _name(step) + _details(step, count), *_told_of(step)) for step, count in rows)
        _print_tabbed((_COLUMNS, *cells), console)
    elif console.width >= _TABLE_WIDTH:
        console.print(Padding(_table(rows), (0, 0, 0, 2)))
    else:
        _print_stacked(rows, console)


def _print_tabbed(rows: Iterable[Sequence[str]], console: Console) -> None:
    from rich.segment import Segment, Segments

    lines = [Segment(f"  {tabbed(row)}\n") for row in rows]
    console.print(Segments(lines), end="", soft_wrap=True)  # a text of rich would have its tabs expanded


def _print_stacked(rows: list[tuple[StepReport, int]], console: Console) -> None:
    """What happened and its figures, then options and the reason in the whole width: no word is broken."""
    from rich.padding import Padding
    from rich.text import Text

    widest = max(len(_name(step)) for step, _ in rows)
    for step, count in rows:
        ratio, drift, reason = _told_of(step)
        figures = [f"ratio {ratio}"] if ratio != NOTHING else []
        figures += [f"drift {drift}"] if drift != NOTHING else []
        name = f"{_name(step):<{widest}}  {', '.join(figures)}".rstrip()
        console.print(Text.assemble("  ", (f"{step.status:<9}", _STYLES[step.status]), name))
        for line, style in ((_details(step, count).strip(" ()"), "dim"), (reason, "")):
            if line:
                console.print(Padding(Text(line, style), (0, 0, 0, 11)))


def _told_of(step: StepReport) -> tuple[str, str, str]:
    return ratio_text(step.ratio_to_original), drift_text(step), step.reason


def _table(rows: list[tuple[StepReport, int]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    longest = max(len(_name(step)) for step, _ in rows)
    for column in _COLUMNS:
        right, narrow = column in ("ratio", "drift"), column not in ("pass", "why")
        table.add_column(
            column,
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=narrow,
            min_width=longest if column == "pass" else None,
        )
    for step, count in rows:
        table.add_row(
            Text(step.status, _STYLES[step.status]),
            Text.assemble(_name(step), (_details(step, count), "dim")),
            *map(Text, _told_of(step)),
        )
    return table


def _name(step: StepReport) -> str:
    """The pass, behind its target where several competed."""
    return f"{step.target}: {step.pass_name}" if step.target else step.pass_name


def _details(step: StepReport, count: int) -> str:
    """The options of one attempt, or how many attempts a row stands for."""
    if count > 1:
        return f" (best of {count})" if step.status in ("dropped", "failed") else f" ({count} times)"
    options = options_text(step.options)
    return f" ({options})" if options else ""
