"""Job: load a source as it is, and record what it computes; what is exported elsewhere is compared with this."""

from __future__ import annotations

from optim.engine.export import Job, load_registry
from optim.jobs import Channel
from optim_plugins.export.evidence import Evidence
from optim_plugins.export.export_job import Request, source_context
from optim_plugins.export.pipeline import Pipeline
from optim_plugins.export.record import record

JOB = Job(__name__, Request, Evidence)


def run(request: Request, channel: Channel) -> Evidence:
    """Load and record."""
    with source_context(request.target, request.folder.parent, channel) as context:
        pipeline = Pipeline(load_registry(), context, request.choice)
        source = pipeline.load(request.source)
        channel.event("progress", text=f"running {request.source.spec}")
        return record(source, request.folder)
