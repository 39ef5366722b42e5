"""Tables and the plot of what ``bench.py`` measured."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from plan import HERE, MODELS, OLIVE, processor_kind, results_folder

PAGE = HERE / "RESULTS.md"
COLUMNS = ("tool", "ratio", "95 %", "drift", "metric", "size", "peak MB", "made in s", "made with MB")
_LARGEST_DRIFT = 2.0
_SMALLEST_DRIFT = 1e-7
_ROUNDING = 1e-5
"""What counts as lossless of a peer."""

_PACKAGES = ("optim-core", "onnxruntime", "onnx", "onnxscript", "onnxslim", "onnxsim", "torch", "numpy")


def print_tables(names: Iterable[str]) -> None:
    """Print what is known of these models."""
    for name, rows in read(names):
        cells = [COLUMNS, *(_cells(row, rows[0]) for row in _ordered(rows))]
        widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
        print(f"\n{name}")
        for line in cells:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for row in rows:
            if row.get("error"):
                print(f"  {row['label']}: {row['error']}")


def write_results() -> None:
    """Write the section of this kind of processor in ``RESULTS.md``, and its plot; other sections stay."""
    found = read(MODELS)
    if not found:
        raise SystemExit("nothing has been measured yet")
    kind = processor_kind()
    plot = HERE / f"speed-against-drift-{kind.lower().replace(', ', '-').replace(' ', '-')}.png"
    draw(found, plot)
    parts = [_SECTION.format(machine=machine(), day=date.today().isoformat(), versions=versions(), plot=plot.name)]
    missing = [name for name in MODELS if name not in {name for name, _ in found}]
    parts += [f"Not measured: {', '.join(missing)}.", ""] if missing else []
    parts += ["### optim beside the best peer within the same budget", "", *_summary(found), ""]
    for name, rows in found:
        parts.append(f"### {name}\n\n{_timed(name)}\n")
        parts.append("| " + " | ".join(COLUMNS) + " |")
        parts.append("|---" * len(COLUMNS) + "|")
        parts += ["| " + " | ".join(_cells(row, rows[0])) + " |" for row in _ordered(rows)]
        failed = [f"- {row['label']}: `{row['error']}`" for row in rows if row.get("error")]
        parts += ["", *(["No result:", "", *failed, ""] if failed else [])]
    section = "\n".join(parts).rstrip() + "\n"
    PAGE.write_text(_INTRODUCTION + "".join(f"\n## {name}\n\n{text}" for name, text in _sections(kind, section)))
    print(f"wrote {PAGE} and {plot}")


def _sections(kind: str, section: str) -> list[tuple[str, str]]:
    """Those of the page by kinds of processors, this one written anew."""
    _, *parts = re.split(r"^## (.*)\n+", PAGE.read_text(), flags=re.MULTILINE) if PAGE.exists() else ("",)
    known = dict(zip(parts[::2], (text.rstrip() + "\n" for text in parts[1::2]), strict=True))
    return list((known | {kind: section}).items())


def read(names: Iterable[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Rows by model, the original first; models that were not measured are left out."""
    found = []
    for name in names:
        path = _record(name)
        if path.is_file():
            found.append((name, json.loads(path.read_text())["rows"]))
    return found


def _record(name: str) -> Path:
    return results_folder(name) / "measured.json"


def _timed(name: str) -> str:
    """How long the results of a model were timed."""
    known = json.loads(_record(name).read_text())
    return f"Each group of results was timed in {known['races']} races of {known['race_s']:.0f} s, in fresh processes."


def draw(found: Sequence[tuple[str, list[dict[str, Any]]]], path: Path) -> None:
    """One panel for each model: drift upwards, latency to the right; optim is green, called by its budget."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(6.4 * columns, 5.0 * lines), squeeze=False)
    for axis in axes.flat[len(found) :]:
        axis.axis("off")
    for axis, (name, rows) in zip(axes.flat, found, strict=False):
        measured = [row for row in rows if row.get("latency_ratio") and row.get("drift") is not None]
        best = _unbeaten([row for row in measured if not row["name"].startswith("optim")])
        named: list[tuple[float, float, bool]] = []
        for row in measured:
            ours = row["name"].startswith("optim")
            across, up = min(row["latency_ratio"], 2.0), min(max(row["drift"], _SMALLEST_DRIFT), _LARGEST_DRIFT)
            low, high = row.get("latency_ratio_ci") or (across, across)
            axis.errorbar(
                across,
                up,
                xerr=[[max(0.0, across - low)], [max(0.0, min(high, 2.0) - across)]],
                fmt="o" if ours else "s",
                color="#17713a" if ours else "#1f5fa8",
                markersize=8 if ours else 5,
                capsize=2,
                zorder=3 if ours else 2,
            )
            if ours or row["name"] in best:
                line = _free_line(named, across, up, ours=ours)
                axis.annotate(
                    row["name"].removeprefix("optim "),
                    (across, up),
                    xytext=(6, -11 - 10 * line) if ours else (-4, 7 + 10 * line),
                    textcoords="offset points",
                    fontsize=8,
                    color="#17713a" if ours else "#1f5fa8",
                    fontweight="bold" if ours else "normal",
                )
        axis.axvline(1.0, color="#b9c1cd", linewidth=1)
        axis.set(title=name, xlabel="latency, ratio to onnxruntime's default", ylabel="drift", yscale="log")
        axis.set_xlim(0, 2.05)
        axis.set_ylim(_SMALLEST_DRIFT / 2, 2 * _LARGEST_DRIFT)
        axis.grid(alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _free_line(named: list[tuple[float, float, bool]], across: float, up: float, *, ours: bool) -> int:
    """How many names already stand about where this one would, on its side of the points; it is added to them."""
    near = [side is ours and abs(x - across) < 0.5 and max(y / up, up / y) < 4 for x, y, side in named]
    named.append((across, up, ours))
    return sum(near)


def _unbeaten(rows: Sequence[dict[str, Any]]) -> set[str]:
    """Names of those that nothing beats in both latency and drift: only they are called by name in the plot."""

    def beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
        faster, nearer = one["latency_ratio"] < other["latency_ratio"], one["drift"] <= other["drift"]
        return bool(faster and nearer)

    return {row["name"] for row in rows if not any(beats(other, row) for other in rows)}


def machine() -> str:
    """Processor, cores, memory, system."""
    from optim._engine.machine import this_machine

    found = this_machine()
    denies = (
        ", which denies what is newer than AVX2 (as_avx2.py)" if "as_avx2" in os.environ.get("LD_PRELOAD", "") else ""
    )
    memory = f"{found.memory_bytes / 1e9:.0f} GB" if found.memory_bytes else "memory unknown"
    return f"{found.cpu}{denies}, {found.cores} cores, {memory}; {found.os.partition('-')[0]}; Python {found.python}"


def versions() -> str:
    """Of optim, the runtime and the peers."""
    own = [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    if OLIVE.is_file():
        ask = "import importlib.metadata as m; print('olive-ai', m.version('olive-ai'))"
        own.append(subprocess.run([str(OLIVE), "-c", ask], capture_output=True, text=True, check=False).stdout.strip())
    return ", ".join(filter(None, own))


def _summary(found: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[str]:
    """A table: what optim made of each model within each budget, and the fastest of the others that keeps it too."""
    lines = ["| model | budget | optim | drift | best peer | its drift | who |", "|---|---|---|---|---|---|---|"]
    for name, rows in found:
        base, ours = rows[0], [row for row in rows if row["name"].startswith("optim") and not row.get("error")]
        peers = [row for row in rows[1:] if not row["name"].startswith("optim") and row.get("latency_ratio")]
        for row in ours:
            within = [peer for peer in (base, *peers) if _keeps(peer, row["name"], base)]
            best = min(within, key=lambda peer: peer["latency_ratio"])
            cells = (
                name,
                row["name"].removeprefix("optim "),
                _ratio(row),
                _far(row, base),
                _ratio(best),
                _far(best, base),
                best["label"],
            )
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _keeps(row: dict[str, Any], name: str, base: dict[str, Any]) -> bool:
    """Whether a result is within the budget that optim's row is called by."""
    words = name.split()
    if "max-drift" in words:
        return bool(row["drift"] <= float(words[words.index("max-drift") + 1]))
    if "max-loss" in words:
        return bool(row["task"]["value"] >= base["task"]["value"] - float(words[words.index("max-loss") + 1]))
    return bool(row["drift"] <= _ROUNDING)


def _ratio(row: dict[str, Any]) -> str:
    low, high = row.get("latency_ratio_ci") or (1.0, 1.0)
    return f"{row['latency_ratio']:.2f} ({low:.2f} to {high:.2f})"


def _far(row: dict[str, Any], base: dict[str, Any]) -> str:
    """Drift, and what the task metric lost where the model has one."""
    task, whole = row.get("task"), base.get("task")
    loss = f", loses {whole['value'] - task['value']:.4f}" if task and whole else ""
    return f"{row['drift']:.2g}{loss}"


def _ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The original, then the fastest first, then what has no result."""
    rest = sorted(rows[1:], key=lambda row: (bool(row.get("error")), row.get("latency_ratio") or 99.0))
    return [rows[0], *(row for row in rest if not row.get("error"))]


def _cells(row: dict[str, Any], base: dict[str, Any]) -> tuple[str, ...]:
    low_high = row.get("latency_ratio_ci")
    task = row.get("task")
    size, whole = row.get("size_bytes"), base.get("size_bytes")
    return (
        row["label"],
        _number(row.get("latency_ratio"), ".2f"),
        f"{low_high[0]:.2f} to {low_high[1]:.2f}" if low_high else "",
        _number(row.get("drift"), ".2g"),
        _number(task["value"] if task else None, ".3f"),
        _number(size / whole if size and whole else None, ".2f"),
        _number(row["peak_memory_bytes"] / 1e6 if row.get("peak_memory_bytes") else None, ".0f"),
        _number(row.get("seconds"), ".0f"),
        _number(row["peak_bytes"] / 1e6 if row.get("peak_bytes") else None, ".0f"),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


_INTRODUCTION = """# Results

Made by `make bench` (`benchmarks/bench.py`): optim and its peers on the same files in one run, a section for each kind
of processor that it has met, called by the sets of instructions that kernels differ by.

Ratio: latency to onnxruntime's default on the original, both in processes of their own, in turns, with a 95 % interval;
below 1 is faster. Drift: relative L2 of the worst output on data that no tool has seen. Metric: of the task, where the
model has one. Size: of the original's. Peak: memory of opening and running the result. Made: wall time and the largest
process of the tool itself. optim searched for 60 s at most; the budget that it was given stands beside its name.
It keeps to its budget on the samples that it was given; on other data the drift may be a little more or less.
In plots optim is green, called by its budget; of its peers, in blue, those have a name that no other beats in both.
"""

_SECTION = """{machine}; {day}. {versions}.

![speed against drift]({plot})
"""
