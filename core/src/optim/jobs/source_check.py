"""Job: hold exported graphs against what their source computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from optim.model import Model, SessionConfig
from optim.processes.channel import Channel
from optim.sources.evidence import read_evidence
from optim.sources.verify import Verified, verify_component, verify_generation


@dataclass(frozen=True, slots=True)
class Request:
    """Graphs by component, and the folder with the evidence.

    Attributes:
        models: by name of the component.
        evidence: folder.
        lossy: a pass that the user named has changed precision.
        generate: also generate text, where the source does.
    """

    models: dict[str, Model]
    evidence: Path
    lossy: bool
    generate: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """How far each graph is from its source."""

    verified: tuple[Verified, ...]


def run(request: Request, channel: Channel) -> Answer:
    """Verify every component, one session at a time; then generate with all of them."""
    from optim.onnxruntime_sessions import open_session

    evidence = read_evidence(request.evidence)
    verified = []
    for name, model in request.models.items():
        channel.event("progress", text=f"verifying {name} against the source")
        session = open_session(model.path, SessionConfig())
        recorded = evidence.component(name)
        verified.append(verify_component(session, request.evidence, recorded, lossy=request.lossy))
        del session
    if evidence.generations and request.generate and not request.lossy:
        from optim.generation.decoder import Decoder

        channel.event("progress", text="generating, token for token")
        sessions = {name: open_session(model.path, SessionConfig()) for name, model in request.models.items()}
        decoder = Decoder.of_sessions(sessions, evidence.facts)
        tokens, notes = verify_generation(decoder.generate, request.evidence, evidence)
        verified[-1] = replace(verified[-1], tokens=tokens, notes=(*verified[-1].notes, *notes))
    return Answer(tuple(verified))
