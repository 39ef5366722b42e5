"""What every task metric must hold, as tests: subclass, say which metric and some samples, and run pytest."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from optim.arrays import Feeds, Outputs
from optim.engine.testing import PluginInfo, count, metric_defect, value_of
from optim.errors import OptimError
from optim.metric import CannotJudge, Metric, MetricFamily
from optim.options import import_named, parse_options
from optim_testing.imports import imports_of
from optim_testing.kit import Kit
from optim_testing.offered import require_words


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One sample that a metric judges.

    Attributes:
        outputs: of a model that is right, or nearly.
        labels: what they are compared with: labels, or the original's outputs.
        feeds: of the model.
        worse: outputs of a model that is clearly worse, for the same labels.
    """

    outputs: Outputs
    labels: Feeds
    worse: Outputs
    feeds: Feeds = field(default_factory=dict)


class MetricConformance(Kit):
    """Subclass as ``TestMyMetric``, with the two fixtures that raise here.

    Attributes:
        options: what a user would write, for the options of a family that have no default.
        plugin: the plugin that brings it, for the rules of names.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    plugin: ClassVar[str] = ""

    @pytest.fixture
    def offered(self) -> Metric | MetricFamily:
        """The offer of the plugin."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a fixture offered that returns a Metric or MetricFamily"
        )

    @pytest.fixture
    def samples(self) -> Sequence[MetricSample]:
        """Two or more samples, of the sizes that come."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture samples that returns some MetricSample")

    @pytest.fixture
    def metric(self, offered: Metric | MetricFamily) -> Metric:
        """The metric; of a family the member with the options of this class."""
        if isinstance(offered, Metric):
            return offered
        made: Any = import_named(offered.make) if isinstance(offered.make, str) else offered.make
        found = made(parse_options(offered, self.options))
        assert isinstance(found, Metric), f"make returned {type(found).__name__}, not an optim.Metric"
        return found

    def test_its_name_fits_and_it_is_described(self, offered: Metric | MetricFamily) -> None:
        """What the registry checks when a plugin offers it, and what ``optim metrics`` shows."""
        defect = metric_defect(offered, PluginInfo(self.plugin or str(getattr(offered, "name", "")), "", "", ""))
        assert not defect, defect
        assert offered.summary.strip(), "say in summary what it is, one line: optim metrics shows that"
        assert "\n" not in offered.summary, "its summary must be one line"

    def test_its_options_are_documented(self, offered: Metric | MetricFamily) -> None:
        """Every option of a family has a description."""
        if isinstance(offered, Metric):
            pytest.skip("it has no options")
        require_words(offered)

    def test_it_has_a_value(self, metric: Metric, samples: Sequence[MetricSample]) -> None:
        """Finite numbers for every sample, as many each time, and a finite value of all."""
        assert len(samples) > 1, "give two samples and more: what is counted must fit together"
        _value(metric, samples)

    def test_worse_outputs_have_a_worse_value(self, metric: Metric, samples: Sequence[MetricSample]) -> None:
        """In the direction that ``higher_is_better`` says."""
        good, bad = _value(metric, samples), _value(metric, [replace(one, outputs=one.worse) for one in samples])
        assert good != bad, f"both have the value {good:.6g}: it does not see the difference"
        assert (good > bad) == metric.higher_is_better, (
            f"{good:.6g} for good outputs, {bad:.6g} for worse ones, and higher_is_better is {metric.higher_is_better}"
        )

    def test_it_gives_the_same_twice_and_in_any_order(self, metric: Metric, samples: Sequence[MetricSample]) -> None:
        """It keeps nothing from one sample to the next."""
        expected = _value(metric, samples)
        assert _value(metric, samples) == expected, "two times gave two values: it must keep nothing between samples"
        assert np.isclose(_value(metric, samples[::-1]), expected, rtol=1e-9), "another order gave another value"

    def test_it_leaves_what_it_is_given_alone(self, metric: Metric, samples: Sequence[MetricSample]) -> None:
        """Arrays are as they were: others are compared on the same."""
        for one in samples:
            given = list(itertools.chain(*(part.items() for part in (one.outputs, one.feeds, one.labels))))
            before = [np.array(array, copy=True) for _, array in given]
            metric.call(one.outputs, one.feeds, one.labels)
            changed = [name for (name, array), was in zip(given, before, strict=True) if not _same(array, was)]
            assert not changed, f"it wrote into {', '.join(changed)}"

    def test_it_says_why_it_cannot_judge(self, metric: Metric, samples: Sequence[MetricSample]) -> None:
        """Without labels, where it needs them: CannotJudge with a reason, or ``needs_labels``."""
        if metric.needs_labels:
            return  # the core says so before it is called
        one = samples[0]
        try:
            metric.call(one.outputs, one.feeds, {})
        except (CannotJudge, OptimError) as reason:
            assert str(reason).strip(), "say in CannotJudge(...) what is missing"
        except Exception as error:
            pytest.fail(
                f"without labels it raised {type(error).__name__}: say needs_labels=True, or raise CannotJudge(reason)",
                pytrace=False,
            )

    def test_importing_it_loads_nothing_heavy(self, offered: Metric | MetricFamily) -> None:
        """The plugin's module is imported by every command; of a family, ``make`` may be named by its import path."""
        functions = [offered.make, offered.options] if isinstance(offered, MetricFamily) else [offered.call]
        for module in {one.__module__ for one in functions if not isinstance(one, str)}:
            heavy = imports_of(module)
            assert not heavy, (
                f"importing {module} loads {', '.join(heavy)}: import them inside functions, "
                "or offer a MetricFamily whose make and options are 'package.module:name'"
            )


def _value(metric: Metric, samples: Sequence[MetricSample]) -> float:
    def outputs_of(place: int) -> tuple[Outputs, Feeds]:
        return samples[place].outputs, samples[place].feeds

    try:
        return value_of(metric, count(metric, range(len(samples)), outputs_of, lambda place: samples[place].labels))
    except OptimError as error:
        pytest.fail(f"{error.what}: {error.cause}", pytrace=False)


def _same(array: Any, was: Any) -> bool:
    return bool(np.array_equal(array, was, equal_nan=np.asarray(array).dtype.kind in "fc"))
