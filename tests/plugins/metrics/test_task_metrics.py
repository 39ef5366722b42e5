"""The metrics of plugin ``metrics`` against values worked out by hand, and what they say of samples that do not fit."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from optim import OptimError
from optim._engine.compare.metric_spec import MetricSpec, parse_metric
from optim._engine.compare.metrics import find_metric
from optim._engine.compare.task import count, value_of


def value(text, samples):
    """A metric over samples of (outputs, labels) or (outputs, labels, feeds)."""
    metric = find_metric(parse_metric(text))
    rows = count(
        metric,
        range(len(samples)),
        lambda i: (samples[i][0], samples[i][2] if len(samples[i]) > 2 else {}),
        lambda i: samples[i][1],
    )
    return value_of(metric, rows)


def scores(*rows):
    return {"logits": np.array(rows, np.float32)}


def label(*values):
    return {"label": np.array(values)}


def refused(reference, call, *arguments):
    with pytest.raises(OptimError) as caught:
        call(*arguments)
    assert caught.value.reference == reference
    return caught.value


def test_top_1_counts_rows_over_all_samples_and_leaves_out_what_is_ignored():
    samples = [(scores([1, 3, 2], [5, 0, 0], [0, 9, 0]), label(1, 2, -100)), (scores([0, 0, 1]), label(2))]
    assert value("top-1", samples) == pytest.approx(2 / 3)


def test_top_1_takes_class_numbers_that_the_model_itself_gives():
    assert value("top-1", [({"best": np.array([2, 0])}, label(2, 1))]) == 0.5
    assert value("top-1", [({"best": np.array([1, 2, 3])}, label(1, -100, 3))]) == 1.0


def test_equal_scores_are_no_hit_for_a_model_that_tells_nothing_apart():
    assert value("top-1", [(scores([1, 1, 1, 1]), label(0))]) == 0.0


def test_top_k_counts_labels_among_the_k_highest():
    samples = [(scores([4, 3, 2, 1], [4, 3, 2, 1]), label(1, 2))]
    assert value("top-k:k=2", samples) == 0.5
    assert value("top-k:k=3", samples) == 1.0


@pytest.mark.parametrize(("average", "expected"), [("macro", (0.5 + 0.8 + 0.0) / 3), ("micro", 0.6), ("binary", 0.8)])
def test_f1_is_over_all_samples_together(average, expected):
    """Hits, found and true: class 0 has 1, 2 and 2, class 1 has 2, 3 and 2, class 2 has 0, 0 and 1."""
    found, truth = [0, 1, 1, 1, 0], [0, 0, 1, 1, 2]
    samples = [(scores(np.eye(3)[one]), label(two)) for one, two in zip(found, truth, strict=True)]
    assert value(f"f1:average='{average}'", samples) == pytest.approx(expected)


def test_f1_of_a_single_score_uses_the_threshold():
    samples = [({"p": np.array([[0.9], [0.4], [0.6]], np.float32)}, label(1, 1, 0))]
    assert value("f1:average='binary'", samples) == pytest.approx(0.5)
    assert value("f1:average='binary',threshold=0.3", samples) == pytest.approx(0.8)


def test_cosine_leaves_padding_out_and_pools():
    own, other = np.zeros((1, 3, 2)), np.zeros((1, 3, 2))
    own[0] = [[1, 0], [0, 1], [7, 7]]
    other[0] = [[1, 0], [1, 0], [-7, 7]]
    feeds = {"attention_mask": np.array([[1, 1, 0]])}
    sample = [({"embeddings": own}, {"embeddings": other}, feeds)]
    assert value("cosine", sample) == pytest.approx(0.5)
    assert value("cosine:pool='mean'", sample) == pytest.approx(1 / math.sqrt(2))
    assert value("cosine:pool='first'", sample) == pytest.approx(1.0)


def test_perplexity_of_labels_and_of_the_next_input_ids():
    logits = {"logits": np.log(np.array([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [1, 1, 1]]]))}
    expected = math.exp((math.log(2) + math.log(3)) / 2)
    assert value("perplexity", [(logits, label(0, -100, 2))]) == pytest.approx(expected)
    ids = {"input_ids": np.array([[2, 0, 1]]), "attention_mask": np.array([[1, 1, 1]])}
    assert value("perplexity", [(logits, {}, ids)]) == pytest.approx(math.exp(-(math.log(0.5) + math.log(0.8)) / 2))
    padded = {**ids, "attention_mask": np.array([[1, 1, 0]])}
    assert value("perplexity", [(logits, {}, padded)]) == pytest.approx(2.0)


def test_token_agreement_is_with_the_original():
    own = {"logits": np.eye(4)[[0, 1, 2]][None]}
    other = {"logits": np.eye(4)[[0, 1, 3]][None]}
    assert value("token-agreement", [(own, other)]) == pytest.approx(2 / 3)
    masked = {"attention_mask": np.array([[1, 1, 1, 1, 0]])}
    assert value("token-agreement", [(own, other, masked)]) == 1.0


def test_mean_iou_is_over_classes_that_occur():
    truth = np.array([[[0, 0], [1, 255]]])
    found = np.array([[[0, 1], [1, 0]]])
    outputs = {"scores": np.moveaxis(np.eye(3, dtype=np.float32)[found], -1, 1)}
    assert value("mean-iou", [(outputs, {"label": truth})]) == pytest.approx((1 / 2 + 1 / 2) / 2)


def test_word_error_rate_of_text_of_tokens_and_of_ctc_scores():
    text = ({"text": np.array(["the cat sat"])}, {"label": np.array(["the cat sat down"])})
    empty = ({"text": np.array(["uh"])}, {"label": np.array([""])})
    assert value("wer", [text]) == pytest.approx(1 / 4)
    assert value("wer", [text, empty]) == pytest.approx(2 / 4)
    ids = ({"ids": np.array([[5, 6, 7]])}, {"labels": np.array([[5, 9, 7, -100]])})
    assert value("wer", [ids]) == pytest.approx(1 / 3)
    heard = np.eye(10, dtype=np.float32)[[0, 5, 5, 0, 5, 7]][None]
    assert value("wer:blank=0", [({"scores": heard}, {"label": np.array([[5, 5, 7]])})]) == 0.0


def test_what_counts_nothing_has_no_value():
    assert "it is nan" in refused("metric-nonsense", value, "top-1", [(scores([1, 2]), label(-100))]).cause


def test_a_metric_that_needs_labels_says_so():
    assert "begin with 'label'" in refused("metric-needs-labels", value, "top-1", [(scores([1, 2]), {})]).fix


@pytest.mark.parametrize(
    ("text", "sample", "said"),
    [
        ("top-1", (scores([1, 2]), label(5)), "label 5 is not one of the 2 classes"),
        ("top-1", (scores([1, 2]), label(0, 1, 0)), "3 labels for 1 rows"),
        ("top-1:output='probs'", (scores([1, 2]), label(0)), "there is no output 'probs'; the model has logits"),
        ("top-1:label='gold'", (scores([1, 2]), label(0)), "there is no label 'gold'; the samples have label"),
        ("perplexity", (scores([1, 2]), {}, {"input_ids": np.array([[1]])}), "two tokens are the least"),
        ("mean-iou", ({"s": np.zeros((1, 3, 2, 2), "f4")}, {"label": np.zeros((1, 4, 4), int)}), "shape [1, 4, 4]"),
    ],
)
def test_outputs_or_labels_that_do_not_fit_are_named(text, sample, said):
    assert said in refused("metric-failed", value, text, [sample]).cause


def test_options_that_do_not_fit_are_refused():
    assert "label" in refused("unknown-option", find_metric, MetricSpec("top-1", {"lable": "x"})).cause
    refused("bad-option", find_metric, MetricSpec("top-k", {"k": "many"}))
    refused("bad-option", find_metric, MetricSpec("top-k", {"k": 0}))


def test_a_metric_whose_library_is_not_installed_says_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jiwer", None)
    found = refused("metric-library-missing", find_metric, parse_metric("wer"))
    assert found.fix == "pip install 'jiwer>=3.0'"
