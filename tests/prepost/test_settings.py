"""What files of a Hugging Face folder say: vocabularies, and names of classes."""

from __future__ import annotations

import json

import pytest

from optim import OptimError
from optim_prepost.plans.settings import Settings, read_labels, read_vocabulary

WORDS = {"[UNK]": 0, "model": 1, "a": 2}


@pytest.mark.parametrize(
    "content", [WORDS, {"model": {"vocab": WORDS}}, {"model": {"type": "WordPiece", "vocab": WORDS}}]
)
def test_a_vocabulary_may_have_the_word_model(tmp_path, content):
    (tmp_path / "vocab.json").write_text(json.dumps(content))
    assert read_vocabulary(str(tmp_path / "vocab.json")) == WORDS


@pytest.mark.parametrize("content", [{"model": []}, {"model": "a"}, [], {"model": {"type": "BPE", "vocab": WORDS}}])
def test_what_is_no_vocabulary_of_word_pieces_is_refused(tmp_path, content):
    (tmp_path / "vocab.json").write_text(json.dumps(content))
    with pytest.raises(OptimError) as caught:
        read_vocabulary(str(tmp_path / "vocab.json"))
    assert caught.value.reference == "bad-settings"


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({"1": "dog", "0": "cat"}, ("cat", "dog")),
        (["cat", "dog"], ("cat", "dog")),
        ({"0": "LABEL_0", "1": "LABEL_1"}, ()),
        ({"0": "LABEL_0", "1": "dog"}, ("LABEL_0", "dog")),
        (None, ()),
    ],
)
def test_names_of_classes_are_those_that_somebody_gave(given, labels):
    assert read_labels(None, Settings(config={"id2label": given})) == labels


@pytest.mark.parametrize("given", [{"cat": 0}, {"0": "cat", "x": "dog"}, 7])
def test_names_without_numbers_are_refused(given):
    with pytest.raises(OptimError, match="id2label"):
        read_labels(None, Settings(config={"id2label": given}))
