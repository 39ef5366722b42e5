"""Figures as a person reads them."""

from __future__ import annotations

from optim._engine.gate.drift import SCORES
from optim._engine.reports.schema import MachineReport, OutputReport
from optim.cli_kit.output import NOTHING

_FAR = "0.1"
"""Scales of the original: an error of an element that is told."""


def cores_text(machine: MachineReport) -> str:
    """E.g. ``2 cores``, ``4 of 64 cores``, ``8 cores, a quota of 1.5``."""
    of = f" of {machine.machine_cores}" if machine.machine_cores not in (None, machine.cores) else ""
    plural = "" if machine.cores == 1 and not of else "s"
    limited = machine.quota is not None and machine.quota < machine.cores
    return f"{machine.cores}{of} core{plural}" + (f", a quota of {machine.quota:.3g}" if limited else "")


def ratio_text(ratio: float | None) -> str:
    """Two decimals: more is noise."""
    return NOTHING if ratio is None else f"{ratio:.2f}"


def figure_text(value: float | None) -> str:
    """Three digits, e.g. ``3.1e-07``."""
    return NOTHING if value is None else f"{value:.3g}"


def share_text(share: float | None) -> str:
    """E.g. ``99.2 %``."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def count_text(count: int, noun: str) -> str:
    """E.g. ``1 trial`` or ``3 trials``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def worst_text(output: OutputReport) -> str:
    """Where and on which sample an output's drift is the worst; empty where rounding explains it."""
    if output.rounding_excess is not None and output.rounding_excess <= 1:
        return ""
    return ", ".join(filter(None, [output.where, output.sample]))


def output_texts(output: OutputReport) -> list[str]:
    """What is to be known of an output beside its figures."""
    found = [output.problem] if output.problem else []
    if output.unjudged:
        found.append(f"not judged: {output.unjudged}")
    if output.mismatched:
        found.append(f"{100 * output.mismatched:.3g} % differ")
    if output.top1_agreement is not None and SCORES.search(output.name):
        found.append(f"top 1 stays in {100 * output.top1_agreement:.3g} % of rows")
    if far := output.above.get(_FAR):
        found.append(f"{100 * far / output.compared:.3g} % of its elements are off by more than {_FAR}")
    return found


def counts_text(counts: dict[str, int]) -> str:
    """E.g. ``Attention 6, BiasGelu 6``."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())
