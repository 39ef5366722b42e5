"""``optim merge-decoders``: two decoders become one file, verified against both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
import onnxruntime

from optim import ExitStatus, Model, OptimError, SessionConfig
from optim.arrays import Array, dtype_of
from optim.cli_kit import made_up_feeds
from optim.drift import compare_outputs, objection
from optim.folders import cache_folder
from optim.onnx import deliver_model, model_size_bytes, open_session
from optim_plugins.torch.merge_decoders.merged_graph import PAST, PRESENT, Merged, merge_graphs

_SAMPLES = 4
_STEPS = 2
"""Steps with a past after each sample: one with the past of the other branch, one with its own."""
_LONGEST = 8
"""Tokens of the first sample; each further one has one less, so that lengths differ."""


@dataclass(frozen=True, slots=True)
class MergedFile:
    """What was written.

    Attributes:
        path: of the graph.
        size_bytes: of the graph and its weights.
        apart_bytes: of the two files that it replaces.
        shared: tensors that both had and that are stored once.
        shared_bytes: their size.
        drift: of the worst output from either original.
        prefills: runs compared without a past.
        steps: runs compared with one.
    """

    path: Path
    size_bytes: int
    apart_bytes: int
    shared: int
    shared_bytes: int
    drift: float
    prefills: int
    steps: int


def write_merged(
    without: Path, with_past: Path, output: Path, say: Callable[[str], None], *, seed: int = 0
) -> MergedFile:
    """Merge, verify on prefill and decode steps, and write.

    Raises:
        OptimError[decoders-do-not-fit]: they are not two exports of one decoder.
        OptimError[merge-differs]: the merged graph does not give what one of them gives.
        OptimError[file-exists]: there is something at ``output``.
        OptimError[not-an-onnx-name]: ``output`` is no name of a model.
    """
    other_name = f"-o {output.with_name(output.stem + '-merged.onnx')}"
    if output.exists():
        raise OptimError.usage("file-exists", f"cannot write {output}", "it is there already", other_name)
    if output.suffix != ".onnx":
        raise OptimError.usage("not-an-onnx-name", f"cannot write {output}", "the name must end in .onnx", other_name)
    cache_folder().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache_folder(), prefix="scratch-") as scratch:
        say("merging")
        merged = merge_graphs(without, with_past, Path(scratch))
        say("running all three")
        runs = _run_all(merged, Path(scratch), seed)
        drift = _drift(runs)
        output.parent.mkdir(parents=True, exist_ok=True)
        deliver_model(merged.model, output.parent, name=output.name)
        return MergedFile(
            output,
            model_size_bytes(merged.model),
            apart_bytes=model_size_bytes(merged.without) + model_size_bytes(merged.with_past),
            shared=merged.shared,
            shared_bytes=merged.shared_bytes,
            drift=drift,
            prefills=len(runs["prefill"]),
            steps=len(runs["decode"]),
        )


_Runs: TypeAlias = dict[str, list[tuple[Mapping[str, Array], Mapping[str, Array]]]]
"""By phase what should come out, and what the merged decoder gives."""


def _drift(runs: _Runs) -> float:
    """The worst drift of any output.

    Raises:
        OptimError[merge-differs]: an output is another than before.
    """
    drift = 0.0
    for phase, pairs in runs.items():
        compared = compare_outputs(pairs)
        if why := objection(compared):
            raise OptimError(
                "merge-differs",
                "the merged decoder does not compute what the two decoders compute",
                f"in {phase}: {why}",
                "export the model again as one graph: optim export FOLDER -o DIR",
                status=ExitStatus.NOT_HELD,
            )
        drift = max(drift, *(one.relative_error for one in compared))
    return drift


def _run_all(merged: Merged, scratch: Path, seed: int) -> _Runs:
    first, second, both = (
        open_session(model.path, SessionConfig()) for model in (merged.without, merged.with_past, merged.model)
    )
    runs: _Runs = {"prefill": [], "decode": []}
    feeds = made_up_feeds(merged.without, scratch / "feeds", seed=seed, run=lambda one: _run(first, one))
    random = np.random.default_rng(seed)
    lengths = _lengths(merged.without)
    for index, whole in enumerate(feeds[:_SAMPLES]):
        sample = _first_tokens(whole, lengths, _LONGEST - index)  # a step needs room behind it
        batch = next(iter(sample.values())).shape[0]
        outputs = _run(both, {**_empty_past(merged.model, batch), **sample})
        runs["prefill"].append((_run(first, sample), outputs))
        past: dict[str, Array] = {}
        for _ in range(_STEPS):
            past |= {name.replace(PRESENT, PAST, 1): array for name, array in outputs.items() if PRESENT in name}
            sample = _next(sample, lengths, random)
            wanted = {**sample, **past}
            expected = _run(second, {value.name: wanted[value.name] for value in second.get_inputs()})
            outputs = _run(both, wanted)
            runs["decode"].append((expected, outputs))
    return runs


def _first_tokens(sample: Mapping[str, Array], lengths: Mapping[str, int], count: int) -> dict[str, Array]:
    return {
        name: np.take(array, range(min(count, array.shape[lengths[name]])), lengths[name]) if name in lengths else array
        for name, array in sample.items()
    }


def _next(sample: Mapping[str, Array], lengths: Mapping[str, int], random: np.random.Generator) -> dict[str, Array]:
    """One new token: ids of one column, a mask longer by one, the next position."""
    following = dict(sample)
    ids = sample["input_ids"]
    following["input_ids"] = random.choice(ids.reshape(-1), (ids.shape[0], 1)).astype(ids.dtype)
    for name in ("attention_mask", "decoder_attention_mask"):
        if name in lengths:
            following[name] = np.concatenate([sample[name], np.ones_like(sample[name][:, :1])], 1)
    if "position_ids" in sample:
        following["position_ids"] = sample["position_ids"][:, -1:] + 1
    return following


def _lengths(model: Model) -> dict[str, int]:
    """Inputs that run along the new tokens, with the dimension that does: it has the name of that of ``input_ids``."""
    shapes = {info.name: info.shape or () for info in model.inputs}
    length = shapes["input_ids"][-1]
    along = {name: shape.index(length) for name, shape in shapes.items() if isinstance(length, str) and length in shape}
    return {"input_ids": len(shapes["input_ids"]) - 1, **along}


def _empty_past(model: Model, batch: int) -> dict[str, Array]:
    found = {}
    for info in model.inputs:
        if info.name.startswith(PAST):
            shape = info.shape or ()
            last = len(shape) - 2
            sizes = [batch if axis == 0 else 0 if axis == last else size for axis, size in enumerate(shape)]
            found[info.name] = np.zeros([size if isinstance(size, int) else 1 for size in sizes], dtype_of(info.dtype))
    return found


def _run(session: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> dict[str, Array]:
    taken = {value.name for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    outputs = session.run(None, {name: array for name, array in feeds.items() if name in taken})
    return dict(zip(names, outputs, strict=True))
