"""``speech``: sound in; for wav2vec2 and its kin the numbers of the tokens heard, for Whisper's encoder its states.

Which of them is read from the model's input: samples [1, count], or features [1, mels, frames].
"""

from __future__ import annotations

from typing import Any

from optim_prepost.plans.plan import Link, PlannedStep, PlanResult, Port, StepPlan
from optim_prepost.plans.settings import read_labels
from optim_prepost.presets.images import scores_output
from optim_prepost.presets.request import Request, shape_text


def make_plan(request: Request) -> StepPlan:
    """``[decode] -> normalize or log mel -> model -> [tokens heard]``."""
    rate = int(request.settings.preprocessor.get("sampling_rate", 16000))
    samples = request.kind("bytes", "samples") == "samples"
    port = Port(request.port_name("audio"), "float" if samples else "uint8", ("count",))
    first = [] if samples else [PlannedStep("AudioDecoder", {"rate": rate})]
    features, heard = _features(request, rate)
    labels = read_labels(request.options.labels, request.settings)
    post: list[PlannedStep] = []
    results: list[PlanResult] = []
    if heard:
        post = [PlannedStep("GreedyCtc", {"blank": request.options.blank}), PlannedStep("Identity", {}, "Heard")]
        results = [PlanResult("tokens", "Heard")]
        if labels:
            names = {"labels": list(labels)}
            post.append(PlannedStep("Labels", names, "", (Link("GreedyCtc", 0, 0),)))
            results.append(PlanResult("labels", "Labels"))
    task = {"rate": rate, "input": "samples" if samples else "bytes", "labels": list(labels)}
    return StepPlan(
        (port,), (*first, features), tuple(post), tuple(results), request.options.target_opset, "speech", task
    )


def _features(request: Request, rate: int) -> tuple[PlannedStep, bool]:
    """The step before the model, and whether its output is scores of tokens."""
    info = request.inputs[0]
    rank = len(info.shape) if info.shape is not None else 0
    if len(request.inputs) != 1 or info.dtype != "float32" or rank not in (2, 3):
        given = "; ".join(f"'{one.name}' {shape_text(one)}" for one in request.inputs)
        raise request.unfit(f"it takes samples [1, count] or features [1, mels, frames]; the model has {given}")
    if rank == 2:
        scores_output(request, 0, 3, "scores of tokens [1, frames, tokens]")
        return PlannedStep("UnitVariance"), True
    return PlannedStep("LogMel", _mel_params(request, rate)), False


def _mel_params(request: Request, rate: int) -> dict[str, Any]:
    given, shape = request.settings.preprocessor, request.inputs[0].shape or (1, None, None)
    mels, frames = given.get("feature_size", shape[1]), shape[2]
    hop = int(given.get("hop_length", 160))
    seconds = given.get("chunk_length", frames * hop / rate if isinstance(frames, int) else 30.0)
    if isinstance(shape[1], int) and mels != shape[1]:
        raise request.unfit(f"the settings have {mels} mel filters; the model's input has {shape[1]}")
    if not isinstance(mels, int):
        raise request.unfit(f"input '{request.inputs[0].name}' does not say how many mel filters: give settings")
    size = int(given.get("n_fft", 400))
    return {"mels": mels, "size": size, "hop": hop, "rate": rate, "seconds": float(seconds)}
