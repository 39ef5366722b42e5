"""``optim merge-decoders``: two decoders become one file, verified against both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from optim._engine.feeds.dimensions import Measure
from optim._engine.feeds.synthesize import plan_model, synthesize_feeds
from optim._engine.gate.drift import OutputComparison, compare_output, merge_samples, worst_drift
from optim._engine.graphs.merge_decoders import Merged, merge_decoders
from optim._engine.store import Store
from optim.arrays import Array, dtype_of
from optim.errors import ExitStatus, OptimError
from optim.model import Model, SessionConfig
from optim.onnx.files import deliver, size_bytes

if TYPE_CHECKING:
    import onnxruntime

_LIMIT = 1e-4
_SAMPLES = 4
_STEPS = 2
_LONGEST = 8


@dataclass(frozen=True, slots=True)
class MergedFile:
    """What was written.

    Attributes:
        path: of the graph.
        size_bytes: of the graph and its weights.
        apart_bytes: of the two files that it replaces.
        shared: tensors that both had and that are stored once.
        shared_bytes: their size.
        drift: relative L2 of the worst output from either original.
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
        raise OptimError(
            "file-exists", f"cannot write {output}", "it is there already", other_name, status=ExitStatus.USAGE
        )
    if output.suffix != ".onnx":
        raise OptimError(
            "not-an-onnx-name",
            f"cannot write {output}",
            "the name must end in .onnx",
            other_name,
            status=ExitStatus.USAGE,
        )
    root = Store().root
    with TemporaryDirectory(dir=root, prefix="scratch-") as scratch:
        say("merging")
        merged = merge_decoders(without, with_past, Path(scratch))
        say("running all three")
        found, prefills, steps = _compare(merged, Path(scratch), seed)
        drift = worst_drift(found).relative_l2
        output.parent.mkdir(parents=True, exist_ok=True)
        deliver(merged.model, output.parent, name=output.name)
        return MergedFile(
            output,
            size_bytes(merged.model),
            size_bytes(merged.without) + size_bytes(merged.with_past),
            merged.shared,
            merged.shared_bytes,
            drift,
            prefills,
            steps,
        )


def _compare(merged: Merged, scratch: Path, seed: int) -> tuple[list[OutputComparison], int, int]:
    from optim.onnx.sessions import open_session

    first, second, both = (
        open_session(model.path, SessionConfig()) for model in (merged.without, merged.with_past, merged.model)
    )
    worst: dict[str, OutputComparison] = {}
    prefills = steps = 0
    feeds = synthesize_feeds(
        merged.without, scratch / "feeds", seed, samples=_SAMPLES, check=lambda one: _run(first, one)
    )
    random = np.random.default_rng(seed)
    lengths = _lengths(merged.without)
    for index, whole in enumerate(feeds.iterate()):
        sample = _first_tokens(whole, lengths, _LONGEST - index)  # a step needs room behind it
        batch = next(iter(sample.values())).shape[0]
        given = {**_empty_past(merged.model, batch), **sample}
        outputs = _run(both, given)
        worst = _merge(worst, _run(first, sample), outputs, "prefill")
        prefills += 1
        past = {name.replace("present.", "past_key_values.", 1): array for name, array in outputs.items()}
        for _ in range(_STEPS):
            sample = _next(sample, lengths, random)
            wanted = {**sample, **{name: array for name, array in past.items() if name.startswith("past_")}}
            expected = _run(second, {v.name: wanted[v.name] for v in second.get_inputs()})
            outputs = _run(both, wanted)
            worst = _merge(worst, expected, outputs, "decode")
            past |= {name.replace("present.", "past_key_values.", 1): array for name, array in outputs.items()}
            steps += 1
    return list(worst.values()), prefills, steps


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
    """Inputs that run along the new tokens, with the dimension that does."""
    return {
        plan.info.name: axis
        for plan in plan_model(model)
        for axis, measure in enumerate(plan.measures)
        if measure is Measure.LENGTH and not plan.source
    }


def _empty_past(model: Model, batch: int) -> dict[str, Array]:
    found = {}
    for info in model.inputs:
        if info.name.startswith("past_key_values."):
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


def _merge(
    worst: dict[str, OutputComparison], expected: Mapping[str, Array], got: Mapping[str, Array], phase: str
) -> dict[str, OutputComparison]:
    compared = [compare_output(name, array, got[name]) for name, array in expected.items()]
    for found in compared:
        if found.problem or found.relative_l2 > _LIMIT:
            raise OptimError(
                "merge-differs",
                f"output '{found.name}' of the merged decoder is another than before",
                f"in {phase}: {found.problem or f'drift {found.relative_l2:.3g}'}",
                "export the model again as one graph: optim export FOLDER -o DIR",
                status=ExitStatus.NOT_HELD,
            )
    return merge_samples(worst, compared)
