"""Outputs that are next to nothing on a sample: rounding is no error there, and an error is no rounding."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from optim import SessionConfig, Target
from optim._engine.compare.place import Reference, compare_run
from optim._engine.compare.rounding import ToleranceTime, measure_tolerance
from optim._engine.feeds.feedset import FeedWriter
from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import worst_beside_rounding
from optim._engine.gate.outputs import compare_output
from optim._engine.gate.quiet import floor_of, with_unmeasured

RNG = np.random.default_rng(0)
LOUD = RNG.uniform(0, 1, (4, 64)).astype(np.float32)
QUIET = (RNG.uniform(0, 1, (4, 64)) * 4e-6).astype(np.float32)
NOISE = (RNG.uniform(-1, 1, (4, 64)) * 1e-7).astype(np.float32)
SAMPLES = (LOUD, QUIET, QUIET * np.float32(2))


@dataclass(frozen=True)
class Original:
    """What a comparison asks of a model."""

    inputs: tuple = ()
    outputs: tuple = (SimpleNamespace(name="y", dtype="float32", shape=(4, 64)),)
    session: SessionConfig = field(default_factory=SessionConfig)


class Rounding:
    """A backend whose original gives out noise of so much where threads are set."""

    has_reference = False
    name = "rounding"

    def __init__(self, noise):
        self._noise = noise

    def equivalent_settings(self, target):
        return (SessionConfig({"intra_op_num_threads": 1}),)

    def open(self, model, target):
        noise = self._noise if model.session != SessionConfig() else 0 * self._noise
        return nullcontext(SimpleNamespace(run=lambda feeds: {"y": SAMPLES[int(feeds["x"][0])] + noise}))


@pytest.fixture
def reference(tmp_path):
    for name, samples in (
        ("feeds", [{"x": np.array([i])} for i in range(3)]),
        ("outputs", [{"y": y} for y in SAMPLES]),
    ):
        with FeedWriter(tmp_path / name) as writer:
            for sample in samples:
                writer.add(sample)
            writer.finish("made", ())
    return Reference(tmp_path / "feeds", tmp_path / "outputs", Original(), (0, 1, 2))


def measured(reference, noise):
    target = Target("cpu", "rounding", "CPUExecutionProvider")
    return measure_tolerance(Rounding(noise), reference.original, reference, (0, 1), ToleranceTime(0, 9, 9), target)


def held(reference, found, sample, output, *, lossy):
    """The gate's objection to a candidate that gives an output on one sample."""
    floored = Reference(reference.feeds, reference.outputs, reference.original, reference.compared, quiet=found.quiet)
    compared = compare_run({"y": output}, floored, sample, {}, ())
    return Budget(0.05, found.tolerance).objection(compared, lossy=lossy)


@pytest.mark.parametrize("sample", [1, 2], ids=["measured", "not measured"])
def test_rounding_of_a_quiet_sample_is_no_error_and_zeros_in_its_place_are(reference, sample):
    found = measured(reference, NOISE)
    assert found.tolerance == pytest.approx(1e-4)  # the loud sample is not held to less
    assert "'y' is next to nothing" in found.notes[0]
    expected = SAMPLES[sample]
    assert not held(reference, found, sample, expected + 3 * NOISE, lossy=False)
    for wrong in (np.zeros_like(expected), expected[:, ::-1], expected * np.float32(1.5)):
        assert "beyond what rounding explains" in held(reference, found, sample, wrong, lossy=False)


def test_the_loud_sample_and_lossy_chains_are_held_as_ever(reference):
    found = measured(reference, NOISE)
    assert "beyond what rounding explains" in held(reference, found, 0, LOUD * np.float32(1.001), lossy=False)
    assert "beyond the budget" in held(reference, found, 1, QUIET * np.float32(1.1), lossy=True)
    assert not held(reference, found, 1, QUIET * np.float32(1.01), lossy=True)


def test_an_original_that_is_not_sure_of_a_large_output_has_no_floor(reference):
    found = measured(reference, NOISE * np.float32(2e3))
    assert found.quiet == {}
    assert found.tolerance == 1e-2


@pytest.mark.parametrize(
    ("noise", "size", "floor"),
    [(1e-8, 4e-6, 1e-3), (1e-8, 0.5, 0.0), (2e-6, 4e-6, 0.0), (0.0, 1e-6, 0.0)],
    ids=["quiet", "loud", "too much noise", "none"],
)
def test_what_has_a_floor(noise, size, floor):
    assert floor_of(noise, size) == pytest.approx(floor)


def test_a_sample_that_was_not_measured_has_the_least_floor():
    assert with_unmeasured({0: 0.0, 1: 1e-3, 2: 1e-2}, range(4)) == (0.0, 1e-3, 1e-2, 1e-3)
    assert with_unmeasured({0: 0.0}, range(2)) == (0.0, 0.0)


def test_two_samples_have_the_worse_of_both():
    quiet = compare_output("y", QUIET, QUIET + NOISE, floor=1e-2)
    loud = compare_output("y", LOUD, LOUD * np.float32(1.02), floor=1e-2)
    assert quiet.beside_rounding < 1e-4 < 0.01 < quiet.relative_l2
    assert quiet.worst(loud).beside_rounding == worst_beside_rounding([quiet, loud]) == loud.relative_l2
    assert compare_output("y", QUIET, np.full_like(QUIET, np.nan), floor=1e-2).beside_rounding == np.inf
