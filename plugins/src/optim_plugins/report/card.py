"""``README.md`` of a run folder: the model card in Hugging Face's form, from the figures of ``report.json`` alone.

The part between the dashes is YAML, as the hub reads it; every value in it is written as JSON, which is YAML too. Names
and reasons come from anybody: what Markdown or HTML would make something of is escaped.
"""

from __future__ import annotations

import json
import re
from pathlib import PureWindowsPath
from typing import Any

from optim.cli_kit import printable, size_text
from optim.engine.report import (
    OutputReport,
    Report,
    ResultReport,
    StepReport,
    cores_text,
    count_text,
    figure_text,
    options_text,
    output_texts,
    ratio_text,
    worst_text,
)
from optim_plugins.report.words import device_text, latency_text, throughput_text

CARD_FILE = "README.md"

_TYPES = {"top-1": "accuracy", "top-k": "accuracy", "f1": "f1", "perplexity": "perplexity", "wer": "wer"}
"""Task metrics that the hub has a name for; the others keep their own."""


def model_card(report: Report) -> str:
    """The text of the card of a delivered model.

    Args:
        report: of a run with a result.
    """
    result = report.result
    assert result is not None
    name = PureWindowsPath(report.original.path).stem  # of either kind of path; the folders above are nobody's business
    verdict = _plain(report.reason[:1].upper() + report.reason[1:])
    file = _code(PureWindowsPath(report.original.path).name)
    parts = [
        _front_matter(report, result, name),
        f"# {_plain(name)}, optimized\n\n{verdict}. optim made this model from `{file}` and compared both."
        " `report.html` has every step.",
        f"## Figures\n\n{_figures(report, result)}",
        f"## How far it is from the original\n\n{_distance(report, result)}",
        f"## How it was made\n\n{_steps(report)}",
        f"## How to repeat it\n\n    {_repeat(report)}\n\n{_made_with(report)}",
    ]
    if result.loader:
        needed = f". It needs only: `{_code('pip install ' + ' '.join(result.requirements))}`"
        opened = f"`load.py` beside it opens it with its settings, without optim{needed if result.requirements else ''}"
        parts.insert(4, f"## How to use it\n\n{opened}" + ("" if result.load_script else f"\n\n{_USE}"))
    if report.notes:
        parts.append("## What to know\n\n" + "\n".join(f"- {_plain(note)}" for note in report.notes))
    return "\n\n".join(parts) + "\n"


_USE = """```python
from load import load

session = load()
outputs = session.run(None, feeds)
```"""


def _front_matter(report: Report, result: ResultReport, name: str) -> str:
    metrics: list[dict[str, Any]] = [
        {
            "type": "relative_error",
            "name": "drift from the original, in scales of its variation",
            "value": result.drift.relative_error,
        },
        {"type": "cosine", "name": "cosine to the original's outputs", "value": result.drift.cosine},
        {"type": "latency_ratio", "name": "latency to the original's", "value": result.latency_ratio},
        {"type": "size_bytes", "name": "bytes on disk", "value": result.size_bytes},
    ]
    if task := result.task:
        kind = task.metric.partition(":")[0]
        metrics.append({"type": _TYPES.get(kind, kind), "name": task.metric, "value": task.value})
    said = {
        "library_name": "onnx",
        "tags": ["onnx", "optim"],
        "model-index": [
            {
                "name": printable(name),
                "results": [
                    {
                        "task": {"type": "other", "name": "the same outputs as the original"},
                        "dataset": {
                            "type": "own",
                            "name": f"input samples of the run: {printable(report.feeds.origin)}",
                        },
                        "metrics": [metric for metric in metrics if metric["value"] is not None],
                    }
                ],
            }
        ],
    }
    return "---\n" + "\n".join(f"{key}: {json.dumps(value)}" for key, value in said.items()) + "\n---"


def _figures(report: Report, result: ResultReport) -> str:
    before = report.original
    rows = [
        ("latency", latency_text(before.latency_ms), latency_text(result.latency_ms)),
        ("size", size_text(before.size_bytes), size_text(result.size_bytes)),
    ]
    if before.throughput is not None and result.throughput is not None:
        rows.append(("throughput", throughput_text(before.throughput), throughput_text(result.throughput)))
    if before.peak_memory_bytes and result.peak_memory_bytes:
        rows.append(("peak memory", size_text(before.peak_memory_bytes), size_text(result.peak_memory_bytes)))
    if task := result.task:
        rows.append((_plain(task.metric), figure_text(task.original), figure_text(task.value)))
    table = "| | original | this model |\n|---|---|---|\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if result.latency_ratio is None:
        return f"{table}\n\nIts latency was not compared."
    interval = result.latency_ratio_ci
    sure = f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}" if interval else ""
    return (
        f"{table}\n\nLatency ratio {ratio_text(result.latency_ratio)}{sure}: timed in turns with the original,"
        f" on target `{_code(report.target)}` ({_plain(report.machine.cpu)}, {cores_text(report.machine)})."
    )


def _distance(report: Report, result: ResultReport) -> str:
    budget = report.budget
    lines = [
        f"- `{_code(output.name)}`: {_plain('; '.join(texts))}" for output in result.outputs if (texts := _told(output))
    ]
    if budget.lossless:
        accepted = "rounding error only"
    elif budget.max_drift is not None:
        accepted = f"a drift of {figure_text(budget.max_drift)}"
    else:
        accepted = "any drift"
    if budget.max_loss:
        accepted += f", and a loss of {_plain(budget.max_loss)} of {_plain(budget.metric or 'the metric')}"
    if budget.max_mismatch:
        accepted += f", and {100 * budget.max_mismatch:.3g} % of texts or whole numbers that differ"
    for bound in budget.bounds:
        most = size_text(bound.most) if bound.unit == "B" else f"{bound.most:g} ms"
        accepted += f", and a {bound.figure} of {most}"
    at = f" at {_plain(result.drift.at)}" if result.drift.at else ""
    text = (
        f"Drift {figure_text(result.drift.relative_error)}{at}: the worst error of any output, slice and sample, in"
        f" units of how the original varies; 1 is as bad as a constant answer. Compared on"
        f" {report.feeds.compared} of {count_text(report.feeds.samples, 'sample')} ({_plain(report.feeds.origin)})."
        f" Rounding explains up to {figure_text(report.tolerance)}. The accuracy budget: {accepted}."
    )
    if report.device is not None:
        said = device_text(report.device)
        text += f" {_plain(said[:1].upper() + said[1:])}."
    return "\n".join([text, *([""] if lines else []), *lines])


def _told(output: OutputReport) -> list[str]:
    """What is to be known of one output."""
    worst = worst_text(output)
    return [*([f"worst at {worst}"] if worst else []), *output_texts(output)]


def _steps(report: Report) -> str:
    kept = [step for step in report.steps if step.status == "kept"]
    if not kept:
        broke = f" Passes that failed: {', '.join(one.pass_name for one in report.broken)}." if report.broken else ""
        return f"It is the original: no candidate was better.{broke}"
    return "\n".join(f"{place}. {_step(step)}" for place, step in enumerate(kept, 1))


def _step(step: StepReport) -> str:
    options = options_text(step.options)
    return f"`{_code(step.pass_name)}`" + (f", `{_code(options)}`" if options else "") + f": {_plain(step.reason)}"


def _repeat(report: Report) -> str:
    file = PureWindowsPath(report.export.source if report.export else report.original.path).name
    return f"optim run {_line(file)} -o again --recipe recipe.lock.toml"


def _made_with(report: Report) -> str:
    versions = ", ".join(f"{_plain(name)} {_plain(version)}" for name, version in report.versions.items())
    return f"Made with {versions}; Python {_plain(report.machine.python)}, {_plain(report.machine.os)}."


def _line(text: str) -> str:
    return " ".join(printable(text).split())


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    safe = _line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|!~])", r"\\\1", safe)


def _code(text: str) -> str:
    """Text that ends no code span."""
    return _line(text).replace("`", "'")
