"""The built-in task metrics against values worked out by hand, functions of a user's own, and nonsense."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optim._engine.gate.task import TaskFigure, loss_objection
from optim._engine.metrics.find import find_metric, metric_digest
from optim._engine.metrics.measure import compared, count, value_of
from optim._engine.metrics.spec import MaxLoss, MetricSpec, parse_max_loss, parse_metric, require_known
from optim.errors import OptimError
from optim.metric import Metric


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


# Values by hand.


def test_top_1_counts_rows_over_all_samples_and_leaves_out_what_is_ignored():
    samples = [(scores([1, 3, 2], [5, 0, 0], [0, 9, 0]), label(1, 2, -100)), (scores([0, 0, 1]), label(2))]
    assert value("top-1", samples) == pytest.approx(2 / 3)


def test_top_1_takes_class_numbers_that_the_model_itself_gives():
    assert value("top-1", [({"best": np.array([2, 0])}, label(2, 1))]) == 0.5


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


# A user's own.


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_metrics.py").write_text(
        "from optim import Metric\n"
        "def near(outputs, labels): return -abs(float(outputs['y'][0]) - float(labels['label'][0]))\n"
        "def far(labels, outputs): return abs(float(outputs['y'][0]) - float(labels['label'][0]))\n"
        "far.higher_is_better = False\n"
        "def others(a, b, c): return len(c)\n"
        "def nothing(outputs): return None\n"
        "def broken(outputs): raise KeyError('logits')\n"
        "def text(outputs): return 'good'\n"
        "def nan(outputs): return float('nan')\n"
        "def many(outputs): return [1.0, 2.0]\n"
        "said = 3\n"
        "summed = Metric('summed', True, lambda o, f, _: [o['y'][0], 1.0], lambda sums: sums[0] / sums[1])\n"
    )
    return "own_metrics"


Y = ({"y": np.array([3.0])}, {"label": np.array([1.0])}, {"x": 1, "z": 2})


@pytest.mark.parametrize(("name", "expected"), [("near", -2.0), ("far", 2.0), ("others", 2.0), ("summed", 3.0)])
def test_a_function_is_called_with_what_it_names_or_by_position(module, name, expected):
    assert value(f"{module}:{name}", [Y, Y]) == expected


def test_the_direction_is_an_attribute_or_an_option(module):
    assert find_metric(MetricSpec(f"{module}:near")).higher_is_better
    assert not find_metric(MetricSpec(f"{module}:far")).higher_is_better
    assert not find_metric(parse_metric(f"{module}:near:higher_is_better=false")).higher_is_better


def test_the_source_of_a_function_is_part_of_what_figures_depend_on(module):
    assert len(metric_digest(MetricSpec(f"{module}:near"))) == 64
    assert metric_digest(MetricSpec("top-1")) == ""


@pytest.mark.parametrize(
    ("name", "reference", "said"),
    [
        ("nothing", "metric-nonsense", "None, which is no number"),
        ("text", "metric-nonsense", "'good', which is no"),
        ("nan", "metric-nonsense", "it returned nan"),
        ("many", "metric-nonsense", "[1.0, 2.0]"),
        ("broken", "metric-failed", "KeyError: 'logits'"),
        ("said", "unknown-metric", "it is a int"),
        ("lost", "unknown-metric", "AttributeError"),
    ],
)
def test_what_raises_or_returns_nonsense_is_one_clear_error(module, name, reference, said):
    error = refused(reference, value, f"{module}:{name}", [Y])
    assert said in error.cause
    assert f"{module}:{name}" in error.what


def test_what_counts_nothing_has_no_value():
    assert "it is nan" in refused("metric-nonsense", value, "top-1", [(scores([1, 2]), label(-100))]).cause


def test_a_metric_that_needs_labels_says_so():
    assert "begin with 'label'" in refused("metric-needs-labels", value, "top-1", [(scores([1, 2]), {})]).fix


@pytest.mark.parametrize(
    ("text", "sample", "said"),
    [
        ("top-1", (scores([1, 2]), label(5)), "label 5 is none of the 2 classes"),
        ("top-1", (scores([1, 2]), label(0, 1, 0)), "3 labels for 1 rows"),
        ("top-1:output='probs'", (scores([1, 2]), label(0)), "there is no output 'probs'; the model has logits"),
        ("top-1:label='gold'", (scores([1, 2]), label(0)), "there is no label 'gold'; the feeds have label"),
        ("perplexity", (scores([1, 2]), {}, {"input_ids": np.array([[1]])}), "two tokens are the least"),
        ("mean-iou", ({"s": np.zeros((1, 3, 2, 2), "f4")}, {"label": np.zeros((1, 4, 4), int)}), "shape [1, 4, 4]"),
    ],
)
def test_outputs_or_labels_that_do_not_fit_are_named(text, sample, said):
    assert said in refused("metric-failed", value, text, [sample]).cause


# What the user writes.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("top-1", MetricSpec("top-1")),
        ("top-k:k=3", MetricSpec("top-k", {"k": 3})),
        ("f1:average='micro',output='y'", MetricSpec("f1", {"average": "micro", "output": "y"})),
        ("a.b:c", MetricSpec("a.b:c")),
        ("a:c:higher_is_better=false", MetricSpec("a:c", {"higher_is_better": False})),
    ],
)
def test_a_metric_is_a_name_with_options_and_reads_back(text, expected):
    assert parse_metric(text) == expected
    assert parse_metric(expected.text) == expected


def test_unknown_names_and_options_list_the_near_ones():
    assert "top-1" in refused("unknown-metric", require_known, MetricSpec("top1"), {}).cause
    assert "label" in refused("unknown-option", find_metric, MetricSpec("top-1", {"lable": "x"})).cause
    refused("bad-option", find_metric, MetricSpec("top-k", {"k": "many"}))
    refused("bad-option", parse_metric, "top-k:k=")
    assert require_known(MetricSpec("ours"), {"ours": "acme"}).plugin == "acme"


@pytest.mark.parametrize(("text", "expected"), [("1%", MaxLoss(0.01, True)), ("0.02", MaxLoss(0.02, False))])
def test_a_loss_is_a_share_or_an_amount(text, expected):
    assert parse_max_loss(text) == expected
    assert parse_max_loss(expected.text) == expected


@pytest.mark.parametrize("text", ["", "%", "-1%", "nan", "inf", "some", "1%%"])
def test_a_loss_that_is_none_is_refused(text):
    refused("bad-budget", parse_max_loss, text)


# The loss.


def never(outputs, feeds, labels):
    raise AssertionError


def accuracy(hits):
    return np.array([[float(hit), 1.0] for hit in hits])


def test_a_loss_has_the_direction_of_its_metric_and_a_standard_error():
    metric = Metric("m", True, never)
    figure = compared(metric, accuracy([1] * 90 + [0] * 10), accuracy([1] * 80 + [0] * 20))
    assert (figure.value, figure.original, figure.samples) == (0.8, 0.9, 100)
    assert figure.loss == pytest.approx(0.1)
    assert figure.error == pytest.approx(math.sqrt(0.1 * 0.9 / 99), rel=1e-6)
    lower = Metric("m", False, never)
    assert compared(lower, accuracy([1, 0]), accuracy([1, 1])).loss == pytest.approx(0.5)


def test_one_sample_has_no_standard_error():
    assert compared(Metric("m", True, never), accuracy([1]), accuracy([0])).error is None


def test_a_loss_beyond_the_budget_is_an_objection_and_noise_is_let_through_while_exploring():
    figure = TaskFigure(0.96, 0.98, 0.02, 0.015, 100)
    assert loss_objection(figure, MaxLoss(0.03, False), provisional=False) == ""
    assert "from 0.98 to 0.96 (loss 0.02, 2.04%), beyond the budget of 1%" in loss_objection(
        figure, MaxLoss(0.01, True), provisional=False
    )
    assert loss_objection(figure, MaxLoss(0.01, True), provisional=True) == ""
