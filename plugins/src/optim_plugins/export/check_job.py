"""Job: hold exported graphs against what their source computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim.engine.export import Job
from optim.errors import ExitStatus, OptimError
from optim.jobs import Channel
from optim.model import Model, SessionConfig
from optim.providers import CUDA
from optim.target import Target
from optim_plugins.export.evidence import LIMITS, read_evidence
from optim_plugins.export.verify import Verified, verify_component, verify_generation

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True, slots=True)
class Request:
    """Graphs by component, and the folder with the evidence.

    Attributes:
        models: by name of the component.
        evidence: folder.
        target: where the graphs will run.
        lossy: a pass that the user named has changed precision.
        max_drift: that the user allows; None: what rounding explains.
        generate: also generate text, where the source does.
    """

    models: dict[str, Model]
    evidence: Path
    target: Target
    lossy: bool
    max_drift: float | None = None
    generate: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """How far each graph is from its source."""

    verified: tuple[Verified, ...]


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Verify every component, one session at a time; then generate with all of them."""
    evidence = read_evidence(request.evidence)
    verified = []
    for name, model in request.models.items():
        channel.event("progress", text=f"verifying {name} against the source")
        session = _opened(name, model, request.target)
        recorded = evidence.component(name)
        verified.append(
            verify_component(session, request.evidence, recorded, lossy=request.lossy, max_drift=request.max_drift)
        )
        del session
    looser = request.lossy or (request.max_drift or 0.0) > LIMITS["float32"]
    if evidence.generations and request.generate and not looser:
        from optim_plugins.goals.decoders.decoder import SessionDecoder

        channel.event("progress", text="generating, token for token")
        sessions = {name: _opened(name, model, request.target) for name, model in request.models.items()}
        decoder = SessionDecoder.of_sessions(sessions, evidence.facts)
        tokens, notes = verify_generation(decoder.generate, request.evidence, evidence)
        verified[-1] = replace(verified[-1], tokens=tokens, notes=(*verified[-1].notes, *notes))
    return Answer(tuple(verified))


def _opened(name: str, model: Model, target: Target) -> onnxruntime.InferenceSession:
    """A session that computes what the graph says; weights that are large beside the memory are read where they lie.

    Between pairs of Q and DQ the source computes in floats. So does a graph whose pairs the runtime leaves alone:
    kernels of integers may saturate, and that is no fault of the export.
    """
    from optim.engine.export import mapped_config
    from optim.onnx import open_session

    place = checked_on(target)
    pairs = any(node.op_type == "DequantizeLinear" for node in model.ir_to_read().graph.all_nodes())
    exact = SessionConfig(
        {"graph_optimization_level": "ORT_DISABLE_ALL"} if pairs else {},
        provider_options={CUDA: {"use_tf32": "0"}} if place.provider == CUDA else {},
    )
    try:
        return open_session(model.path, exact, place, extra_config=mapped_config(model.path, place))
    except OptimError as error:
        raise OptimError(
            "export-refuses",
            f"onnxruntime does not open the exported {name}",
            error.cause,
            "export it in another way: --without torch.dynamo, or --without torch.torchscript",
            status=ExitStatus.NOT_HELD,
        ) from error


def checked_on(target: Target) -> Target:
    """Where an export is held against its source: on the CPU, or by CUDA where the graphs will run on that GPU.

    Which node runs where is a question of the run that follows, so nodes may be left to the CPU here.
    """
    from optim.engine.export import PLAIN_CPU

    options = {target.provider: target.provider_options, **target.also}.get(CUDA)
    if options is None:
        return PLAIN_CPU
    return Target("cuda", "cuda", CUDA, options, fallback=True, shapes_on_cpu=True)
