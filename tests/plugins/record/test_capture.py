"""Feeds out of a running program: what is kept, what is left out, and that nothing of it stops the program."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import pytest

import optim
from optim._engine.feeds.sources import read_samples
from optim.errors import OptimError
from optim_testing import models


@pytest.fixture
def session(tmp_path):
    return ort.InferenceSession(models.mlp(tmp_path), providers=["CPUExecutionProvider"])


def call(session, value, rows=1):
    return session.run(None, {"x": np.full((rows, 32), value, np.float32)})[0]


def kept(folder):
    return sorted(float(arrays["x"].flat[0]) for _, arrays in read_samples(str(folder), 0))


def test_what_went_in_is_what_a_run_takes(session, tmp_path):
    before, said = ort.InferenceSession.run, []
    with optim.capture(tmp_path / "feeds", say=said.append):
        outputs = [call(session, value) for value in (1.0, 2.0, 3.0)]
    assert outputs[0].shape == (1, 10)
    assert kept(tmp_path / "feeds") == [1.0, 2.0, 3.0]
    assert said == ["captured 3 of 3 calls of mlp"]
    assert ort.InferenceSession.run is before
    call(session, 4.0)
    assert len(kept(tmp_path / "feeds")) == 3


def test_of_more_calls_than_the_limit_a_fair_sample_is_kept(session, tmp_path):
    means = []
    for seed in range(8):
        folder = tmp_path / f"feeds-{seed}"
        with optim.capture(folder, limit=4, seed=seed, say=lambda text: None):
            for value in range(40):
                call(session, float(value))
        assert len(kept(folder)) == 4
        means.append(np.mean(kept(folder)))
    assert 15 < np.mean(means) < 24  # the first four alone have 1.5, the last four 37.5


def test_sessions_that_ran_side_by_side_have_a_folder_each(session, tmp_path):
    other = ort.InferenceSession(models.mlp(tmp_path, width=32), providers=["CPUExecutionProvider"])
    with optim.capture(tmp_path / "feeds", say=lambda text: None):
        call(session, 1.0)
        call(other, 2.0)
    assert sorted(file.name for file in (tmp_path / "feeds").iterdir()) == ["0-mlp", "1-mlp"]
    assert kept(tmp_path / "feeds" / "1-mlp") == [2.0]


def test_a_call_that_is_too_large_is_left_out_and_the_program_goes_on(session, tmp_path):
    said = []
    with optim.capture(tmp_path / "feeds", max_bytes=300, say=said.append):
        assert call(session, 1.0, rows=50).shape == (50, 10)
        call(session, 2.0)
    assert kept(tmp_path / "feeds") == [2.0]
    assert said == ["captured 1 of 2 calls of mlp; 1 more would have been above 300 bytes"]
    with pytest.raises(OptimError, match="nothing-captured") as caught, optim.capture(tmp_path / "none", max_bytes=300):
        call(session, 1.0, rows=50)
    assert "the largest 6400" in caught.value.cause and caught.value.fix == "give more max_bytes"


def test_a_module_is_listened_to_by_the_names_of_its_arguments(tmp_path):
    torch = pytest.importorskip("torch")

    class Scaled(torch.nn.Module):
        def forward(self, x, scale=None, **kwargs):
            return x if scale is None else x * scale

    module = Scaled()
    with optim.capture(tmp_path / "feeds", module=module, say=lambda text: None):
        module(torch.ones(1, 3), scale=torch.tensor(2.0), mask=torch.ones(1), flag=True)
    module(torch.ones(2, 3))
    ((_, sample),) = read_samples(str(tmp_path / "feeds"), 0)
    assert set(sample) == {"x", "scale", "mask"}


def test_where_nothing_was_called_the_error_says_what_is_seen(tmp_path):
    with pytest.raises(OptimError, match="nothing-captured") as caught, optim.capture(tmp_path / "feeds"):
        pass
    assert "module=module" in caught.value.fix
    assert not (tmp_path / "feeds").exists()


def test_what_cannot_be_written_leaves_no_folder(session, tmp_path, monkeypatch):
    def full(path, arrays):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("optim_plugins.record.capture.write_archive", full)
    with pytest.raises(OptimError, match="No space left"), optim.capture(tmp_path / "feeds"):
        call(session, 1.0)
    assert not (tmp_path / "feeds").exists()
    (tmp_path / "own").mkdir()
    with pytest.raises(OptimError, match="nothing-captured"), optim.capture(tmp_path / "own"):
        pass
    assert (tmp_path / "own").is_dir()


def test_an_error_of_the_program_is_its_own(session, tmp_path):
    with pytest.raises(ZeroDivisionError), optim.capture(tmp_path / "feeds"):
        raise ZeroDivisionError
    assert not (tmp_path / "feeds").exists()
    with pytest.raises(AttributeError, match="has no attribute 'keys'"), optim.capture(tmp_path / "other"):
        session.run(None, SimpleNamespace())  # what onnxruntime says of it


@pytest.mark.parametrize(("given", "reference"), [({"limit": 0}, "bad-limit"), ({"max_bytes": 0}, "bad-limit")])
def test_limits_below_one_are_refused(tmp_path, given, reference):
    with pytest.raises(OptimError, match=reference), optim.capture(tmp_path / "feeds", **given):
        pass


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(OptimError, match="capture-folder-taken"), optim.capture(tmp_path):
        pass
    with pytest.raises(OptimError), optim.capture(tmp_path / "mine.txt"):
        pass
