"""A trained sentence encoder, from a text to a vector of length 1, against its own tokenizer and NumPy."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

SENTENCES = (
    "A man is playing a guitar.",
    "The committee postponed Tuesday's vote on the 2.5 million euro bridge, again!",
    "R\u00e9sum\u00e9 of a na\u00efve caf\u00e9-owner: unbelievably well-organised, isn't it?",
    "\u4e2d\u6587 and   tabs\tand\nlines \u2014 all of it \u20ac5 \U0001f600",
    "",
)


@pytest.fixture(scope="module")
def demo():
    place = Path(__file__).parents[2] / "examples" / "minilm" / "demo.py"
    spec = importlib.util.spec_from_file_location("minilm_demo_for_prepost", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_minilm_from_a_string_to_the_vector_that_hugging_face_gives(compose, tmp_path, demo, monkeypatch):
    from tokenizers import Tokenizer

    package = demo.find_package()
    monkeypatch.chdir(tmp_path)
    path = demo.place_model(package)
    _, drift, run = compose(path, preset="text-embedding", settings=str(package))
    assert drift.relative_error <= 1e-4

    tokenizer = Tokenizer.from_file(str(package / "tokenizer.json"))
    tokenizer.no_padding()
    plain = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in plain.get_inputs()]
    for sentence in SENTENCES:
        encoded = tokenizer.encode(sentence)
        rows = {"input_ids": encoded.ids, "attention_mask": encoded.attention_mask, "token_type_ids": encoded.type_ids}
        states = plain.run(None, {name: np.array([rows[name]], np.int64) for name in names})[0]
        pooled = states.astype(np.float64).mean(1)
        expected = pooled / np.linalg.norm(pooled)
        (found,) = run(np.array([sentence], dtype=object)).values()
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
        assert np.abs(found - expected).max() <= 1e-5
