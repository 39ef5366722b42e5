"""``report.html``: the whole report as one file that needs no network."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.cli_kit import printable, size_text
from optim.engine.report import (
    LOAD_TEXT,
    GenerationReport,
    Report,
    StartReport,
    StepReport,
    cores_text,
    counts_text,
    figure_text,
    options_text,
    output_texts,
    ratio_text,
    share_text,
    worst_text,
)
from optim_plugins.drawing import NARROW, STYLE, WIDE, Canvas
from optim_plugins.report.plots import latency_plot, points_plot, steps_plot, tokens_plot
from optim_plugins.report.words import (
    TARGET_COLUMNS,
    about_targets,
    device_text,
    drift_text,
    export_text,
    generation_figures,
    latency_text,
    not_here,
    operator_time_text,
    result_drift_text,
    target_rows,
    throughput_text,
)

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Template
    from markupsafe import Markup

_GROUPS = (
    ("kept", "Kept", "The passes that made the result, in order."),
    ("failed", "Failed", "The pass raised an error, or its model was not valid. The result does not contain it."),
    ("dropped", "Dropped", "Tried, but wrong, slower, or not needed in the result."),
    ("not-applicable", "Not applicable", "The pass found nothing to do in this model."),
    ("skipped", "Skipped", "Not tried."),
)
_LEAST_SHARE = 0.01
"""Of the time of a run, from which an operator is shown without a click."""

_WORDS = {
    word.__name__: word
    for word in (
        *(cores_text, counts_text, device_text, drift_text, export_text, figure_text, latency_text),
        *(operator_time_text, options_text, output_texts, ratio_text, result_drift_text, share_text),
        *(size_text, worst_text),
    )
}
"""The functions with which the template writes figures."""

_OPEN_UP_TO = 8
"""Longer lists of what is not in the result are folded."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step, and on how many chains it came to the same; ``chains`` is 1 where the row says on which."""

    step: StepReport
    chains: int


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps that fared alike."""

    status: str
    title: str
    about: str
    steps: Sequence[StepRow]

    @property
    def is_open(self) -> bool:
        """Whether it is shown without a click."""
        return self.status in ("kept", "failed") or (self.status == "dropped" and len(self.steps) <= _OPEN_UP_TO)


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator, before and after: nodes of the graph, and ms of a run as the runtime executes it."""

    name: str
    before: int
    after: int
    before_ms: float
    after_ms: float

    @property
    def change(self) -> int:
        """Nodes gained; negative: lost."""
        return self.after - self.before

    @property
    def ms(self) -> float:
        """The longer of both times."""
        return max(self.before_ms, self.after_ms)


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with its heading and what it shows."""

    title: str
    about: str
    drawing: Markup


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """One figure, before and after, and how the two relate; ``share`` is after / before."""

    title: str
    before: str
    after: str
    share: float
    note: str = ""

    @property
    def widths(self) -> tuple[float, float]:
        """Lengths of the two bars in per cent of the longer."""
        longer = max(1.0, self.share)
        return round(100 / longer, 1), round(100 * self.share / longer, 1)


def render_html(report: Report) -> str:
    """The text of ``report.html``."""
    changed, same = _operators(report)
    return _template().render(
        report=report,
        headline=_sentence(report.reason),
        figures=_figures(report),
        groups=_groups(report),
        not_here=not_here(report.steps),
        changed=changed,
        same=same,
        words=_WORDS,
        load_text=LOAD_TEXT,
        plots=_plots(report),
        plot_style=STYLE,
        front=report.front,
        target_columns=TARGET_COLUMNS,
        target_rows=target_rows(report),
        about_targets=about_targets(report),
    )


def _plots(report: Report) -> list[Plot]:
    """Those that there is something to show in; every text in them is escaped where it is drawn."""
    from markupsafe import Markup

    drawn = [
        Plot(
            "Speed against drift",
            "Each dot is a model. Left is faster, low is more accurate. Green is delivered. Numbers are those of optim "
            "pick. Large dots were timed again and compared on all samples; small grey dots were timed once.",
            Markup(_both(points_plot, report)),
        ),
        Plot(
            "Latency",
            "Ratio to the original with its 95 % interval, from the final timing.",
            Markup(_both(latency_plot, report)),
        ),
        Plot(
            "Tokens per second",
            "Speed of one token by the number of tokens before it, for the original and the result.",
            Markup(_both(tokens_plot, report)),
        ),
        Plot("Step by step", "After each step of the result, in order.", Markup(_both(steps_plot, report))),
    ]
    return [plot for plot in drawn if plot.drawing]


def _both(plot: Callable[[Report, Canvas], str], report: Report) -> str:
    """A plot for wide pages and for narrow ones: the page's style shows one of them."""
    return plot(report, WIDE) + plot(report, NARROW)


@cache
def _template() -> Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("optim_plugins.report", ""),
        autoescape=True,
        finalize=_shown,
        bytecode_cache=_compiled_beside(Path(__file__).parent / "__pycache__"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["with_options"] = _with_options
    environment.filters["tojson_text"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.get_template("report.html.j2")


def _with_options(text: str) -> Markup:
    """A text in which the names of options are code, so that no line breaks inside one."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(?<!\w)--[a-z][a-z-]*", r"<code>\g<0></code>", str(escape(printable(text)))))


def _shown(value: Any) -> Any:
    """A text of anybody without what would hide or turn it around; drawings are made of such texts already."""
    return printable(value) if type(value) is str else value


def _sentence(text: str) -> str:
    """With a capital, unless it begins with the name of a pass, and a full stop."""
    first = text.partition(" ")[0]
    return f"{text[:1].upper()}{text[1:]}." if first.isalpha() else f"{text}."


def _groups(report: Report) -> list[StepGroup]:
    found = []
    for status, title, about in _GROUPS:
        steps = [step for step in report.steps if step.status == status and not step.not_here]
        if steps:
            found.append(StepGroup(status, title, about, _merged(steps)))
    return found


def _merged(steps: Sequence[StepReport]) -> list[StepRow]:
    """A row for each step that did something; what never ran, for the same reason on several chains, is one."""
    alike: dict[object, list[StepReport]] = {}
    for place, step in enumerate(steps):
        never_ran = step.status in ("not-applicable", "skipped")
        same = (step.target, step.pass_name, step.reason, str(step.options)) if never_ran else place
        alike.setdefault(same, []).append(step)
    return [StepRow(group[0], len(group)) for group in alike.values()]


def _figures(report: Report) -> list[ShownFigure]:
    before, after = report.original, report.result
    if after is None:
        return []
    found = []
    if before.latency_ms and after.latency_ms and after.latency_ratio is not None:
        interval = after.latency_ratio_ci
        note = f"ratio {after.latency_ratio:.2f}" + (f", {interval[0]:.2f} to {interval[1]:.2f}" if interval else "")
        texts = latency_text(before.latency_ms), latency_text(after.latency_ms)
        found.append(ShownFigure("Latency", *texts, after.latency_ratio, note))
    if before.generation is not None and after.generation is not None:
        found.append(_answer(before.generation, after.generation))
    if before.throughput is not None and after.throughput is not None and after.goal_ratio is not None:
        texts = throughput_text(before.throughput), throughput_text(after.throughput)
        found.append(
            ShownFigure("Throughput", *texts, after.goal_ratio.value, f"time ratio {after.goal_ratio.value:.2f}")
        )
    if before.start is not None and after.start is not None:
        found.append(_start_up(before.start, after.start))
    sizes = [
        ("Size", before.size_bytes, after.size_bytes),
        ("Peak memory", before.peak_memory_bytes, after.peak_memory_bytes),
    ]
    for title, old, new in sizes:
        if old and new:
            found.append(ShownFigure(title, size_text(old), size_text(new), new / old, f"ratio {new / old:.2f}"))
    return found


def _answer(before: GenerationReport, after: GenerationReport) -> ShownFigure:
    """An answer, with its first token and the others."""
    *parts, (title, old, new) = generation_figures(before, after)
    note = "; ".join(f"{name} {one} → {other}" for name, one, other in parts)
    return ShownFigure(title.capitalize(), old, new, after.answer_ms / before.answer_ms, note)


def _start_up(before: StartReport, after: StartReport) -> ShownFigure:
    """From opening a model to its first answer."""
    old, new = before.open_ms + before.first_ms, after.open_ms + after.first_ms
    parts = [("open", "open_ms"), ("first call", "first_ms"), ("later calls", "run_ms")]
    texts = (
        f"{title} {latency_text(getattr(before, name))} → {latency_text(getattr(after, name))}" for title, name in parts
    )
    return ShownFigure("Start-up", latency_text(old), latency_text(new), new / old, "; ".join(texts))


def _operators(report: Report) -> tuple[list[OperatorRow], list[OperatorRow]]:
    """Operators whose count changed or that take time, the dearest and the largest change first, and the others."""
    result = report.result
    before, ms_before = report.original.operators, report.original.operator_ms
    after, ms_after = (result.operators, result.operator_ms) if result else (before, {})
    ms_before, ms_after = (_named_as_in({**before, **after}, times) for times in (ms_before, ms_after))
    rows = [
        OperatorRow(name, before.get(name, 0), after.get(name, 0), ms_before.get(name, 0.0), ms_after.get(name, 0.0))
        for name in {**ms_before, **ms_after, **before, **after}
    ]
    rows.sort(key=lambda row: (-row.ms, -abs(row.change), -row.before, row.name))
    least = _LEAST_SHARE * max(sum(ms_before.values()), sum(ms_after.values()))
    shown = [row for row in rows if row.change or (least and row.ms >= least)]
    return shown, [row for row in rows if row not in shown]


def _named_as_in(operators: Mapping[str, int], times: Mapping[str, float]) -> dict[str, float]:
    """Times by the names of graphs: the runtime calls an operator of a domain of its own without that domain."""
    full = {name.rpartition(":")[2]: name for name in operators if ":" in name}
    return {name if name in operators else full.get(name, name): ms for name, ms in times.items()}


def _compiled_beside(folder: Path) -> BytecodeCache | None:
    """A place for compiled templates; None where Python keeps nothing there.

    Compiling the page's template takes a tenth of a run that is served from the cache. What lies in ``folder`` is
    trusted as the modules there are: nobody writes into it who could not write the package itself.
    """
    if sys.dont_write_bytecode or sys.pycache_prefix is not None or not folder.is_dir():
        return None
    from jinja2 import FileSystemBytecodeCache
    from jinja2.bccache import Bucket

    class Beside(FileSystemBytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            with contextlib.suppress(OSError, EOFError, ValueError, TypeError):  # a torn file is compiled anew
                super().load_bytecode(bucket)

        def dump_bytecode(self, bucket: Bucket) -> None:
            with contextlib.suppress(OSError):  # a package that is installed for everybody is not ours to write into
                super().dump_bytecode(bucket)

    return Beside(str(folder), "%s.jinja")
