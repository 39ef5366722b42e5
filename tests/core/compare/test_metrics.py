"""Task metrics: functions of a user's own, those of plugins by name, nonsense, and the loss."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from plugin_packages import site

from optim._engine.compare import task
from optim._engine.compare.metric_spec import MetricSpec, parse_metric, require_known
from optim._engine.compare.metrics import find_metric, metric_digest
from optim._engine.compare.task import compared, count, value_of
from optim._engine.gate.budget import MaxLoss, TaskFigure, loss_objection, parse_max_loss
from optim._engine.plugins.registry import load_registry
from optim.errors import OptimError
from optim.metric import Metric

__all__ = ["site"]


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


def refused(reference, call, *arguments):
    with pytest.raises(OptimError) as caught:
        call(*arguments)
    assert caught.value.reference == reference
    return caught.value


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
    assert metric_digest(MetricSpec("acme-share")) == ""


@pytest.mark.parametrize(
    ("name", "reference", "said"),
    [
        ("nothing", "metric-nonsense", "None, which is not a number"),
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


def test_options_that_are_no_toml_are_refused():
    refused("bad-option", parse_metric, "top-k:k=")


# Those of plugins.


OFFERS = """from optim import Metric, MetricFamily, PassOptions, hookimpl
OPTIM_HOOK_API = 1

class Options(PassOptions):
    power: int = 1

def make(options):
    return Metric("share", True, lambda outputs, feeds, labels: float(outputs["y"][0]) ** options.power)

@hookimpl
def optim_metrics():
    return (
        MetricFamily("acme-share", make, Options),
        MetricFamily("acme-nothing", lambda options: 3, Options),
        MetricFamily("acme-lost", "no module", Options),
        Metric("acme-plain", True, lambda outputs, feeds, labels: 1.0),
    )
"""


@pytest.fixture
def acme(site):
    site.add("acme", OFFERS)


@pytest.mark.usefixtures("acme")
def test_a_metric_of_a_plugin_takes_options():
    assert value("acme-share:power=2", [Y]) == 9.0
    assert value("acme-plain", [Y]) == 1.0
    refused("bad-option", find_metric, MetricSpec("acme-share", {"power": "many"}))
    assert "power" in refused("unknown-option", find_metric, MetricSpec("acme-share", {"powr": 2})).cause
    refused("unknown-option", find_metric, MetricSpec("acme-plain", {"power": 2}))


@pytest.mark.usefixtures("acme")
def test_a_metric_is_known_with_its_plugin_and_an_unknown_one_lists_the_near_ones():
    registry = load_registry()
    assert require_known(MetricSpec("acme-share"), registry).plugin == "acme"
    assert "acme-share" in refused("unknown-metric", require_known, MetricSpec("acme-shar"), registry).cause
    assert require_known(MetricSpec("a.b:c"), registry).plugin == ""


@pytest.mark.usefixtures("acme")
def test_a_family_that_makes_no_metric_is_an_error_of_its_plugin():
    assert "made int" in refused("unknown-metric", find_metric, MetricSpec("acme-nothing")).cause
    assert "'no module'" in refused("plugin-failed", find_metric, MetricSpec("acme-lost")).cause


def test_without_a_plugin_that_brings_metrics_the_error_says_how_to_get_them():
    error = refused("unknown-metric", require_known, MetricSpec("top-1"), load_registry(only=[]))
    assert "plugin metrics, which is not installed" in error.cause and "pip install ./plugins" in error.fix


# The loss.


@pytest.mark.parametrize(("text", "expected"), [("1%", MaxLoss(0.01, True)), ("0.02", MaxLoss(0.02, False))])
def test_a_loss_is_a_share_or_an_amount(text, expected):
    assert parse_max_loss(text) == expected
    assert parse_max_loss(expected.text) == expected


@pytest.mark.parametrize("text", ["", "%", "-1%", "nan", "inf", "some", "1%%"])
def test_a_loss_that_is_none_is_refused(text):
    refused("bad-budget", parse_max_loss, text)


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


class SampleList(list):
    """As much of feeds as the original's own value asks for."""

    def sample(self, index):
        return self[index]

    def sample_labels(self, index):
        return {}


def test_a_share_of_a_metric_that_is_zero_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "zero_metrics.py").write_text("def zero(outputs): return 0.0\n")
    monkeypatch.setattr(task, "_labels", lambda compares, reference: lambda index: {})
    feeds = [{"x": np.zeros(1)}] * 2
    known = SampleList(feeds)
    reference = SimpleNamespace(feed_set=lambda: known, compared=(0, 1), expected=lambda index: {"y": np.ones(1)})
    asked = parse_metric("zero_metrics:zero")

    def measured(limit):
        return task.measure_original(asked, parse_max_loss(limit), None, reference, 0.1, tmp_path / "rows.npy")

    assert "--max-loss 0.01" in refused("metric-is-zero", measured, "1%").fix
    assert measured("0.5")[0].original == 0.0


@pytest.mark.parametrize(("limit", "noted"), [("1%", True), ("0.05", True), ("10%", False), ("0.1", False)])
def test_a_limit_below_one_answer_is_noted(tmp_path, monkeypatch, limit, noted):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(task, "_labels", lambda compares, reference: known.sample_labels)
    (tmp_path / "right_metrics.py").write_text("def right(outputs, labels): return 1.0\n")
    known = SampleList([{"x": np.zeros((8, 1))}] * 2)
    known.sample_labels = lambda index: {"label": np.zeros(8)}
    reference = SimpleNamespace(feed_set=lambda: known, compared=(0, 1), expected=lambda index: {"y": np.ones((8, 1))})
    rows = tmp_path / "rows.npy"
    asked = parse_metric("right_metrics:right")
    _, notes = task.measure_original(asked, parse_max_loss(limit), None, reference, 0.1, rows)
    found = [note for note in notes if note.startswith(f"--max-loss {limit} cannot be judged with 16 labels")]
    assert bool(found) == noted, notes
