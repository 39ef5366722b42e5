"""What the plugin of the examples adds to the report of a run."""

from __future__ import annotations

from html import escape

from optim.after_run import Findings, FinishedRun, Section


def look(run: FinishedRun) -> Findings:
    """A section that says how many steps the gate dropped."""
    names = ", ".join(escape(step.pass_name) for step in run.dropped)
    return Findings(sections=(Section("Dropped by the gate", f"<p>{names or 'No pass'}</p>"),))
