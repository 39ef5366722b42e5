"""Job: load a source as it is, and record what it computes; what is exported elsewhere is held against this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optim.engine.export import Choice, Job, load_registry
from optim.jobs import Channel
from optim.source import SourceRequest
from optim.target import Target
from optim_plugins.export.evidence import Evidence
from optim_plugins.export.export_job import source_context
from optim_plugins.export.pipeline import Pipeline
from optim_plugins.export.record import record


@dataclass(frozen=True, slots=True)
class Request:
    """A source, where it will run, what the user said of passes, and the folder to record in."""

    source: SourceRequest
    target: Target
    choice: Choice
    folder: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """What was recorded."""

    evidence: Evidence


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Load and record."""
    with source_context(request.target, request.folder.parent, channel) as context:
        pipeline = Pipeline(load_registry(), context, request.choice)
        source = pipeline.load(request.source)
        channel.event("progress", text=f"running {request.source.spec}")
        return Answer(record(source, request.folder))
