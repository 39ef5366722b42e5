from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from optim._engine.api.given import named_data
from optim._engine.feeds.sources import read_samples
from optim.errors import OptimError

X = np.arange(4, dtype=np.float32)


def samples_of(data):
    with named_data(data, seed=3) as spec:
        return [dict(arrays) for _, arrays in read_samples(spec, 0)]


def test_what_names_feeds_already_stays_as_it_is():
    with named_data(Path("feeds.npz"), 0) as spec:
        assert spec == "feeds.npz"
    with named_data(None, 0) as spec:
        assert spec is None


@pytest.mark.parametrize(
    ("data", "count"),
    [({"x": X}, 1), ([{"x": X}, {"x": X}], 2), ((s for s in [{"x": X}]), 1), (lambda: {"x": X}, 1)],
    ids=["a sample", "a list", "a generator", "a function"],
)
def test_samples_come_back_as_they_were(data, count):
    found = samples_of(data)
    assert len(found) == count
    np.testing.assert_array_equal(found[0]["x"], X)


def test_a_function_is_given_the_seed_and_may_yield():
    def made(seed):
        for place in range(2):
            yield {"x": np.array([seed + place])}

    assert [int(sample["x"][0]) for sample in samples_of(made)] == [3, 4]


def test_names_and_text_are_kept():
    (found,) = samples_of({"file": X, "a/b": X, "text": np.array(["é", "bc"], dtype=object), "label": 3})
    assert sorted(found) == ["a/b", "file", "label", "text"]
    assert found["text"].tolist() == ["é", "bc"]


def test_the_same_arrays_make_the_same_file():
    contents = []
    for _ in range(2):
        with named_data({"x": X}, 0) as spec:
            contents.append(Path(spec).read_bytes())
    assert contents[0] == contents[1]
    assert not Path(spec).exists()


def test_bfloat16_arrives_as_float32_which_holds_it():
    (found,) = samples_of({"x": X.astype(ml_dtypes.bfloat16)})
    assert found["x"].dtype == np.float32
    np.testing.assert_array_equal(found["x"], X)


@pytest.mark.parametrize("error", [TypeError, NotImplementedError])
def test_a_tensor_that_torch_does_not_hand_out_is_refused(error):
    class Sparse:
        dtype = "torch.float32"

        def detach(self):
            return self

        def cpu(self):
            raise error("use to_dense() first")

    with pytest.raises(OptimError, match="bad-data") as caught:
        samples_of({"x": Sparse()})
    assert caught.value.cause == "use to_dense() first"


def raising():
    raise ValueError("no luck")


@pytest.mark.parametrize(
    ("data", "reference", "word"),
    [
        (X, "bad-data", "ndarray"),
        (7, "bad-data", "an int"),
        ([X], "bad-data", "sample 0 is a ndarray"),
        ([], "feeds-empty", "no samples"),
        ({"x": np.array([{}])}, "bad-data", "Python objects"),
        ({"x": [[1], [1, 2]]}, "bad-data", "'x' of sample 0"),
        (raising, "feeds-function-failed", "no luck"),
    ],
)
def test_what_is_no_data_is_refused(data, reference, word):
    with pytest.raises(OptimError) as caught:
        samples_of(data)
    assert caught.value.reference == reference
    assert word in str(caught.value)
