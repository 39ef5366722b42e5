"""The generation loop: choosing tokens, and knowing which output is fed to which input."""

from __future__ import annotations

import numpy as np
import pytest

from optim._engine.generation.interface import interface_of
from optim._engine.generation.sampling import Sampling, choose
from optim.model import TensorInfo

IDS = TensorInfo("input_ids", "int64", ("batch", "sequence"))


def test_greedy_takes_the_likeliest_of_each_row() -> None:
    logits = np.array([[0.0, 2.0, 1.0], [5.0, 2.0, 1.0]])
    assert choose(logits, Sampling(), np.random.default_rng(0)).tolist() == [1, 0]


def test_sampling_follows_the_probabilities() -> None:
    logits = np.log(np.array([[0.7, 0.2, 0.1]] * 4000))
    drawn = choose(logits, Sampling(greedy=False), np.random.default_rng(0))
    assert np.allclose(np.bincount(drawn) / 4000, [0.7, 0.2, 0.1], atol=0.03)
    cold = choose(logits, Sampling(greedy=False, temperature=0.1), np.random.default_rng(0))
    assert (cold == 0).mean() > 0.99


@pytest.mark.parametrize(
    ("settings", "allowed"), [({"top_k": 2}, {1, 2}), ({"top_p": 0.6}, {1, 2}), ({"top_p": 0.1}, {1})]
)
def test_unlikely_tokens_are_left_out(settings: dict[str, float], allowed: set[int]) -> None:
    logits = np.log(np.array([[0.1, 0.5, 0.3, 0.1]] * 500))
    drawn = choose(logits, Sampling(greedy=False, **settings), np.random.default_rng(0))  # type: ignore[arg-type]
    assert set(drawn.tolist()) == allowed


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_k": -1}])
def test_what_is_no_distribution_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(settings))} is "):
        Sampling(greedy=False, **settings)  # type: ignore[arg-type]


def test_a_past_is_known_by_its_names() -> None:
    past = TensorInfo("past_key_values.0.key", "float32", ("batch", 4, "past", 8))
    found = interface_of([IDS, past], ["logits", "present.0.key"])
    assert found.state == {"present.0.key": "past_key_values.0.key"}
    assert found.is_decoder and found.logits == "logits"
    assert found.zeros(3, 0)["past_key_values.0.key"].shape == (3, 4, 0, 8)


def test_any_other_memory_is_told_by_the_export() -> None:
    mems = TensorInfo("mems.0", "float16", ("batch", "past", 8))
    assert not interface_of([IDS, mems], ["scores", "present.mems.0"]).is_decoder
    found = interface_of([IDS, mems], ["scores", "present.mems.0"], {"present.mems.0": "mems.0"})
    assert found.is_decoder and found.logits == "scores"
    assert found.zeros(2, 0)["mems.0"].dtype == np.float16
