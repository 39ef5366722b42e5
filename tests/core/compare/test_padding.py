"""Positions that a mask hides are left out of a comparison if the original shows that they say nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from optim._engine.compare.original import outputs_with_padding
from optim._engine.gate.outputs import variations_of
from optim.model import TensorInfo

MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]], np.int64)
IDS = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]], np.int64)
FEEDS = {"ids": IDS, "attention_mask": MASK}
TABLE = np.random.default_rng(0).standard_normal((12, 6)).astype(np.float32)


def model(**shapes):
    inputs = (TensorInfo("ids", "int64", ("batch", "seq")), TensorInfo("attention_mask", "int64", ("batch", "seq")))
    outputs = tuple(TensorInfo(name, "float32", shape) for name, shape in shapes.items())
    return SimpleNamespace(inputs=inputs, outputs=outputs)


def shown(mask):
    return (mask != 0)[..., None]


def by_position(feeds):
    """Each position by its own token, as an encoder whose attention is masked."""
    return {"y": TABLE[feeds["ids"]]}


def with_zeros(feeds):
    """Padding is zero in what comes out, whatever stands there."""
    return {"y": TABLE[feeds["ids"]] * shown(feeds["attention_mask"])}


def with_sentinels(feeds):
    scores = TABLE[feeds["ids"]]
    return {"y": np.where(shown(feeds["attention_mask"]), scores, np.float32(-1e9))}


def unmasked(feeds):
    """The mask is read and ignored: every position sees all tokens."""
    tokens = TABLE[feeds["ids"]]
    return {"y": tokens + tokens.mean(axis=1, keepdims=True)}


def of_shown(feeds):
    """Features that are as many as positions: the mean of what is shown."""
    mask = shown(feeds["attention_mask"])
    return {"y": (TABLE[feeds["ids"]] * mask).sum(axis=1) / mask.sum(axis=1)}


def of_places(feeds):
    """What stands at a hidden position is of use: a mask that hides places to fill, and not padding."""
    places = np.arange(feeds["ids"].shape[1], dtype=np.float32)
    return {"y": np.broadcast_to(places[None, :, None], (*feeds["ids"].shape, 6)).copy()}


SEQUENCE = ("batch", "seq", 6)


@pytest.mark.parametrize("run", [by_position, with_zeros, with_sentinels])
def test_padding_is_left_out_where_the_original_shows_that_it_says_nothing(run):
    assert outputs_with_padding(run, model(y=SEQUENCE), [FEEDS]) == {"y"}


@pytest.mark.parametrize("run", [unmasked, of_places])
def test_a_mask_that_hides_no_padding_hides_nothing(run):
    assert outputs_with_padding(run, model(y=SEQUENCE), [FEEDS]) == frozenset()


def test_features_as_many_as_positions_are_no_positions():
    """By its size alone the axis could be the sequence; six features stay the same whatever is hidden."""
    assert outputs_with_padding(of_shown, model(y=(None, None)), [FEEDS]) == frozenset()


def test_a_sentinel_does_not_hide_that_shown_positions_move():
    """A thousandth of the largest number would be a million here."""

    def run(feeds):
        found = unmasked(feeds)["y"].copy()
        found[:, 0] = -1e9
        return {"y": np.where(shown(feeds["attention_mask"]), found, np.float32(-1e9))}

    assert outputs_with_padding(run, model(y=SEQUENCE), [FEEDS]) == frozenset()


def test_nan_at_padding_and_elsewhere_is_no_movement():
    def run(feeds):
        return {"y": np.where(shown(feeds["attention_mask"]), TABLE[feeds["ids"]], np.float32(np.nan))}

    assert outputs_with_padding(run, model(y=SEQUENCE), [FEEDS]) == {"y"}


def test_every_sample_that_is_looked_at_must_show_it():
    calls = []

    def run(feeds):
        calls.append(feeds)
        return by_position(feeds) if len(calls) <= 2 else unmasked(feeds)

    assert outputs_with_padding(run, model(y=SEQUENCE), [FEEDS, FEEDS]) == frozenset()


def test_samples_without_padding_take_no_run_and_prove_nothing():
    def run(feeds):
        raise AssertionError("it ran")

    whole = {"ids": IDS, "attention_mask": np.ones_like(MASK)}
    assert outputs_with_padding(run, model(y=SEQUENCE), [whole, {"ids": IDS}]) == frozenset()


def test_only_hidden_tokens_are_changed():
    seen = []

    def run(feeds):
        seen.append(feeds)
        return by_position(feeds)

    outputs_with_padding(run, model(y=SEQUENCE), [FEEDS])
    first, second = seen
    np.testing.assert_array_equal(first["ids"], IDS)
    assert ((first["ids"] != second["ids"]) == (MASK == 0)).all()
    np.testing.assert_array_equal(second["attention_mask"], MASK)


def test_an_output_without_an_element_shows_nothing():
    def run(feeds):
        return {"y": np.zeros((2, 6, 0), np.float32)}

    assert outputs_with_padding(run, model(y=("batch", "seq", 0)), [FEEDS]) == frozenset()


def test_the_variation_of_an_output_leaves_proven_padding_out():
    """What stands at padding is a hundred times larger here."""
    y = np.where(shown(MASK), TABLE[IDS], 100 * TABLE[IDS])
    of = model(y=SEQUENCE)
    found = variations_of([({"y": y}, FEEDS)], of, {"y"})["y"]
    assert found.has_padding
    assert found.scale == pytest.approx(TABLE[IDS][MASK == 1].std(), rel=0.2)
    assert variations_of([({"y": y}, FEEDS)], of, ())["y"].scale > 10 * found.scale
