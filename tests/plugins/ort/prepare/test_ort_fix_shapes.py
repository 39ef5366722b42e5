"""``ort.fix-shapes``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ort_models import CPU, apply, context, export, feeds_for, parsed, relative_l2

from optim import ExitStatus, OptimError
from optim.options import parse_options
from optim_plugins.ort.prepare.fix_shapes import FixShapes

pytestmark = pytest.mark.slow


def test_an_export_with_fixed_dimensions_computes_the_same(tmp_path: Path) -> None:
    model, feeds = export("bert.dynamo", tmp_path), feeds_for("bert.dynamo")
    batch, seq = feeds["input_ids"].shape
    names = model.inputs[0].shape
    assert names is not None
    by_name = apply(FixShapes, model, tmp_path, dimensions={str(names[0]): batch, str(names[1]): seq})
    by_shape = apply(FixShapes, model, tmp_path, shapes={name: array.shape for name, array in feeds.items()})
    assert by_name.model.digest == by_shape.model.digest
    assert not any(info.is_dynamic for info in (*by_name.model.inputs, *by_name.model.outputs))
    assert relative_l2(model, by_name.model, feeds) < 1e-6


def test_without_options_the_samples_say_the_shape(tmp_path: Path) -> None:
    model, feeds = export("bert.ts", tmp_path), feeds_for("bert.ts")
    given = replace(context(tmp_path), samples=lambda: iter((feeds, feeds)))
    result = FixShapes().apply(model, parse_options(FixShapes, {}), given)
    assert result.model.inputs[0].shape == feeds["input_ids"].shape
    assert "fixed: input_ids" in result.notes[0]


def test_both_ways_at_once_are_refused(tmp_path: Path) -> None:
    model = export("bert.ts", tmp_path)
    with pytest.raises(OptimError, match="dimensions and shapes exclude each other"):
        apply(FixShapes, model, tmp_path, dimensions={"batch": 1}, shapes={"input_ids": [1, 8]})


@pytest.mark.parametrize(
    "options", [{"dimensions": {"batch": 0}}, {"shapes": {"input_ids": [1, -8]}}, {"dimensions": {"batch": True}}]
)
def test_sizes_that_cannot_be_are_no_options(options: dict[str, object]) -> None:
    with pytest.raises(OptimError) as caught:
        parse_options(FixShapes, options)
    assert (caught.value.reference, caught.value.status) == ("bad-option", ExitStatus.USAGE)


@pytest.mark.parametrize(
    ("options", "reference", "said"),
    [
        ({"dimensions": {"bath": 1}}, "unknown-dimension", "did you mean batch"),
        ({"shapes": {"input_id": [1, 8]}}, "unknown-input", "did you mean input_ids"),
        ({"shapes": {"input_ids": [8]}}, "bad-shape", "has 2 dimensions, not 1"),
    ],
)
def test_what_the_model_does_not_have_is_refused_once_it_is_read_and_before_it_is_run(
    options: dict[str, object], reference: str, said: str, tmp_path: Path
) -> None:
    from optim._engine.runs.run import run_settings
    from optim._engine.search.settings import Named, RunSettings

    heard: list[str] = []
    asked = RunSettings(export("bert.ts", tmp_path).path, named=(Named("ort.fix-shapes", options),))
    with pytest.raises(OptimError, match=said) as caught:
        run_settings(asked, tmp_path / "out", heard.append)
    assert (caught.value.reference, caught.value.status) == (reference, ExitStatus.USAGE)
    assert heard and all(text.startswith("reading") for text in heard)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("jobs_here", "counted_clock")
@pytest.mark.parametrize("options", [{"dimensions": {"batch": 2, "sequence": 9}}, {"shapes": {"input_ids": [2, 9]}}])
def test_feeds_are_made_up_in_the_sizes_asked_for_by_the_user_or_by_a_lock(
    options: dict[str, object], tmp_path: Path
) -> None:
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.execute import execute
    from optim._engine.search.settings import Named, RunSettings
    from optim._engine.store import Store

    registry = load_registry()
    others = {one.name for one in registry.offers(registry.target("cpu"))} - {"ort.fix-shapes"}
    asked = RunSettings(
        export("bert.ts", tmp_path).path, named=(Named("ort.fix-shapes", options),), without=tuple(sorted(others))
    )
    for settings in (asked, replace(asked, named=(), chain=asked.named)):
        outcome = execute(settings, registry, Store(), lambda text: None)
        assert outcome.result is not None
        assert [info.shape for info in outcome.result.candidate.model.inputs] == [(2, 9)] * 3
        assert len(outcome.prepared.timed) == 1


def test_samples_that_do_not_fit_what_was_asked_for_are_refused_before_anything_is_tried(tmp_path: Path) -> None:
    from optim._engine.runs.run import run_settings
    from optim._engine.search.settings import Named, RunSettings

    np.savez(tmp_path / "feeds.npz", **feeds_for("bert.ts"))  # type: ignore[arg-type]
    asked = RunSettings(
        export("bert.ts", tmp_path).path,
        data=str(tmp_path / "feeds.npz"),
        named=(Named("ort.fix-shapes", {"shapes": {"input_ids": [1, 99]}}),),
    )
    with pytest.raises(OptimError, match="has the wrong shape") as caught:
        run_settings(asked, tmp_path / "out", lambda text: None)
    assert caught.value.reference == "feeds-shape"


def test_samples_of_another_shape_are_refused(tmp_path: Path) -> None:
    model, feeds = export("bert.ts", tmp_path), feeds_for("bert.ts")
    given = replace(context(tmp_path), samples=lambda: iter((feeds,)))
    shapes = {name: np.add(array.shape, 1).tolist() for name, array in feeds.items()}
    with pytest.raises(OptimError, match="would not take the samples"):
        FixShapes().apply(model, parse_options(FixShapes, {"shapes": shapes}), given)


def test_what_is_fixed_already_is_declined(tmp_path: Path) -> None:
    model = export("bert.ts", tmp_path)
    fixed = apply(FixShapes, model, tmp_path, shapes={"input_ids": [1, 8]})
    assert FixShapes().applicable(fixed.model, CPU).reason == "the inputs have fixed shapes already"


def test_a_sequence_has_no_shape_to_fix(tmp_path: Path) -> None:
    text = (
        """<opset_import: ["": 17]> g (seq(float[2]) s) => (float[2] y) <int64 at = {0}> { y = SequenceAt (s, at) }"""
    )
    assert FixShapes().applicable(parsed(tmp_path, text), CPU).reason == "the inputs have fixed shapes already"


def test_samples_may_hold_sequences_beside_tensors(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17]> g (seq(float[2]) s, float[n] x) => (float[m] y) <int64 at = {0}> {
            first = SequenceAt (s, at)
            y = Add (first, x)
        }""",
    )
    sample = {"s": [np.ones(2, np.float32)], "x": np.ones(2, np.float32)}
    result = apply(FixShapes, model, tmp_path, [sample])
    assert result.notes == ("fixed: x 2",)


def test_shapes_that_the_runtime_refuses_in_a_branch_are_declined(tmp_path: Path) -> None:
    """As silero's detector of voices: a branch for another sample rate makes no sense with these sizes."""
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17]> g (float[n, 4] x, bool c) => (float[a, b] y)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[4, 2] v = {1, 2, 3, 4, 5, 6, 7, 8}> {
            y = If (c) <then_branch = t () => (float[a, b] p) { p = MatMul (x, v) },
                else_branch = e () => (float[a, b] q) { s = Transpose (x) q = MatMul (s, w) }>
        }""",
    )
    sample = {"x": np.ones((1, 4), np.float32), "c": np.array(True)}
    result = apply(FixShapes, model, tmp_path, [sample])
    assert not result.changed
    assert "onnxruntime refuses it with these shapes" in result.notes[0]
