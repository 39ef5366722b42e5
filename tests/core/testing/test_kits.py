"""The kits for targets, metrics, commands, source passes and exporters: sound ones pass, each bad one fails."""

from __future__ import annotations

import inspect
import logging
import time
from dataclasses import replace
from typing import ClassVar

import click
import numpy as np
import pytest
import vendor_offers as vendor
from vendor_metric import NearOptions, near

from optim import Applicable, Metric, PassOptions, Source, SourceRequest, SourceResult
from optim.hooks import Command
from optim.source import SourceContext
from optim.testing import (
    CommandConformance,
    ExporterConformance,
    MetricConformance,
    MetricSample,
    SourcePassConformance,
    TargetConformance,
    models,
)

HEAVY = models.__name__


class TestTarget(TargetConformance):
    settings: ClassVar = {"chip": "2"}

    @pytest.fixture
    def target(self):
        return vendor.TARGET

    @pytest.fixture
    def backend_class(self):
        return vendor.Backend

    @pytest.fixture
    def model_path(self, tmp_path):
        return str(models.mlp(tmp_path))


def sample(size):
    label = np.linspace(0, 1, size)
    return MetricSample({"y": label + 0.01}, {"label": label}, {"y": label + 0.5})


class TestMetric(MetricConformance):
    options: ClassVar = {"within": 0.1}
    plugin = "vendor"

    @pytest.fixture
    def offered(self):
        return vendor.NEAR

    @pytest.fixture
    def samples(self):
        return [sample(3), sample(5)]


class TestCommand(CommandConformance):
    refused = ("nothing",)

    @pytest.fixture
    def offered(self):
        return vendor.SAY

    @pytest.fixture
    def words(self):
        return ["hello"]


class TestLoader(SourcePassConformance):
    @pytest.fixture
    def pass_class(self):
        return vendor.Load

    @pytest.fixture
    def source(self):
        return Source(SourceRequest("scale"))


class TestSourcePass(SourcePassConformance):
    max_drift = 1e-6

    @pytest.fixture
    def pass_class(self):
        return vendor.Merge

    @pytest.fixture
    def source(self):
        return vendor.loaded()


class TestExporter(ExporterConformance):
    max_drift = 1e-6

    @pytest.fixture
    def exporter_class(self):
        return vendor.Export

    @pytest.fixture
    def component(self):
        return vendor.component(vendor.Scale())

    @pytest.fixture
    def refused(self):
        return vendor.component(object())


# Bad ones, by what is wrong: the class that holds them, the check that must fail, and what it is given in their place.


def told(values):
    return replace(vendor.TARGET, device=f"Vendor {values.get('chip', 2)}")


def broken(*_, **more):
    raise KeyError("chip")


def slow():
    time.sleep(2.1)


class Bare(PassOptions):
    within: float = 0.1


def metric(call, **more):
    return {"metric": Metric("vendor-near", True, call, **more)}


def mean(outputs, feeds, labels):
    return float(np.mean(outputs["y"]))


def scribble(outputs, feeds, labels):
    outputs["y"] += 1
    return 1.0


class Remembers:
    calls = 0

    def __call__(self, outputs, feeds, labels):
        self.calls += 1
        return float(self.calls)


def say(callback=lambda: None, **more):
    more.setdefault("help", "Say it.")
    command = click.Command("say", callback=callback, **more)
    return {"command": command, "words": []}


def option(**more):
    return click.Option(["--json"], is_flag=True, **more)


WORD = click.Argument(["word"])


def kind(base, **members):
    return type(base.__name__, (base,), members)


def no(self, subject, target):
    return Applicable.no("")


def does(result):
    return lambda self, source, options, context: result(source)


def unchanged(source):
    return SourceResult(source, False, ("no",))


def halved(source):
    for one in source.components:
        one.module.parts[:] = [0.1]
    return SourceResult(source, True, counts={"x": 1})


def wrong_off_the_example(source):
    one = source.components[0]

    def run(feeds):
        return {"y": one.run(feeds)["y"] * (1 + (feeds["x"].shape != one.example["x"].shape))}

    return SourceResult(replace(source, components=(replace(one, run=run),)), True, counts={"x": 1})


def renamed(source):
    def run(feeds):
        return {"z": feeds["x"]}

    return SourceResult(replace(source, components=(replace(source.components[0], run=run),)), True, counts={"x": 1})


def spoils(self, component, options, context):
    found = vendor.Export().export(component, options, context)
    component.module.parts[:] = [0.0]
    return found


def nothing(self, component, options, context):
    return None


def boom(self, component, options, context):
    raise ValueError("no")


TARGETS = {
    "without-device": ("its_name_and_attributes_fit", {"target": replace(vendor.TARGET, device="")}),
    "of-two-runtimes": ("its_name_and_attributes_fit", {"target": replace(vendor.TARGET, runtime="x")}),
    "other-backend": ("its_backend_runs_it", {"target": replace(vendor.TARGET, backend="another")}),
    "probe-raises": ("its_probe_is_quick_and_gives_a_reason_or_none", {"target": replace(vendor.TARGET, probe=broken)}),
    "probe-says-yes": (
        "its_probe_is_quick_and_gives_a_reason_or_none",
        {"target": replace(vendor.TARGET, probe=lambda: True)},
    ),
    "probe-is-slow": ("its_probe_is_quick_and_gives_a_reason_or_none", {"target": replace(vendor.TARGET, probe=slow)}),
    "probe-is-heavy": ("its_functions_load_nothing_heavy", {"target": replace(vendor.TARGET, probe=models.mlp)}),
    "takes-any-setting": (
        "its_settings_are_understood_and_others_refused",
        {"target": replace(vendor.TARGET, configure=told)},
    ),
    "breaks-over-settings": (
        "its_settings_are_understood_and_others_refused",
        {"target": replace(vendor.TARGET, configure=lambda values: told(values) if "chip" in values else broken())},
    ),
    "requires-no-pass": (
        "what_it_requires_are_passes_that_run_when_required",
        {"target": replace(vendor.TARGET, requires=("compile",))},
    ),
    "cannot-be-told": (
        "another_process_can_be_told_it",
        {"target": replace(vendor.TARGET, provider_options={"level": object()})},
    ),
    "does-not-run": ("a_model_runs_on_it", {"target": replace(vendor.TARGET, provider="NobodysExecutionProvider")}),
}
METRICS = {
    "misnamed": ("its_name_fits_and_it_is_described", {"offered": replace(vendor.NEAR, name="Near It")}),
    "undescribed": ("its_name_fits_and_it_is_described", {"offered": replace(vendor.NEAR, summary="")}),
    "bare-option": ("its_options_are_documented", {"offered": replace(vendor.NEAR, options=Bare)}),
    "no-number": ("it_has_a_value", metric(lambda outputs, feeds, labels: "0.5")),
    "counts-of-other-lengths": (
        "it_has_a_value",
        metric(lambda outputs, feeds, labels: outputs["y"], finish=lambda counts: counts.sum()),
    ),
    "blind": ("worse_outputs_have_a_worse_value", metric(lambda outputs, feeds, labels: 1.0)),
    "upside-down": ("worse_outputs_have_a_worse_value", metric(mean)),
    "remembers": ("it_gives_the_same_twice_and_in_any_order", metric(Remembers())),
    "scribbles": ("it_leaves_what_it_is_given_alone", metric(scribble)),
    "breaks": ("it_says_why_it_cannot_judge", metric(lambda outputs, feeds, labels: labels["label"].mean())),
    "heavy": ("importing_it_loads_nothing_heavy", {"offered": Metric("vendor-x", True, mean)}),
}
COMMANDS = {
    "own-verb": ("its_verb_fits_and_is_described", {"offered": Command("vendor_offers:run", "Runs.")}),
    "undescribed": ("its_verb_fits_and_is_described", {"offered": Command("vendor_offers:say")}),
    "without-help": ("it_has_help_with_every_option", say(help="")),
    "bare-option": ("it_has_help_with_every_option", say(params=[option()])),
    "breaks": ("it_works", say(broken)),
    "returns-words": ("it_works", say(lambda: "done")),
    "unknown-status": ("it_works", say(lambda: 77)),
    "chatters": ("with_json_its_output_is_json", say(lambda json: print("hello"), params=[option(help="As JSON.")])),
    "breaks-over-nonsense": ("what_it_cannot_do_is_an_error_with_cause_and_fix", say(broken, params=[WORD])),
    "swallows-nonsense": ("what_it_cannot_do_is_an_error_with_cause_and_fix", say(lambda word: None, params=[WORD])),
    "heavy": ("importing_it_loads_nothing_heavy", {"offered": Command("optim.testing.models:mlp", "x")}),
}
SOURCES = {
    "misnamed": ("its_name_and_attributes_fit", {"pass_class": kind(vendor.Merge, name="merge")}),
    "bare-option": ("its_options_are_documented", {"pass_class": kind(vendor.Merge, options=Bare)}),
    "misspelt-order": ("its_order_can_be_resolved", {"pass_class": kind(vendor.Merge, before=("Not a pass",))}),
    "never-fires": ("it_fires", {"pass_class": kind(vendor.Merge, apply=does(unchanged))}),
    "returns-nothing": ("it_fires", {"pass_class": kind(vendor.Merge, apply=does(lambda source: None))}),
    "no-reason": ("it_declines_with_a_reason", {"pass_class": kind(vendor.Merge, applicable=no)}),
    "other-outputs": ("components_run_as_they_are_declared", {"pass_class": kind(vendor.Merge, apply=does(renamed))}),
    "wrong": ("it_leaves_what_components_compute", {"pass_class": kind(vendor.Merge, apply=does(halved))}),
    "wrong-off-the-example": (
        "it_leaves_what_components_compute",
        {"pass_class": kind(vendor.Merge, apply=does(wrong_off_the_example))},
    ),
    "heavy": ("importing_it_loads_nothing_heavy", {"pass_class": kind(vendor.Merge, __module__=HEAVY)}),
}
EXPORTERS = {
    "misnamed": ("its_name_and_attributes_fit", {"exporter_class": kind(vendor.Export, name="export")}),
    "bare-option": ("its_options_are_documented", {"exporter_class": kind(vendor.Export, options=Bare)}),
    "misspelt-order": ("its_order_can_be_resolved", {"exporter_class": kind(vendor.Export, after=("X Y",))}),
    "declines": ("it_takes_its_component", {"exporter_class": kind(vendor.Export, applicable=no)}),
    "fixes-the-batch": (
        "its_graph_has_what_the_component_declares",
        {"exporter_class": kind(vendor.Export, dynamic=False)},
    ),
    "returns-nothing": (
        "its_graph_computes_what_the_module_does",
        {"exporter_class": kind(vendor.Export, export=nothing)},
    ),
    "wrong": (
        "its_graph_computes_what_the_module_does",
        {"exporter_class": kind(vendor.Export, by=lambda self, component: 3.0)},
    ),
    "spoils-the-module": ("it_leaves_the_module_alone", {"exporter_class": kind(vendor.Export, export=spoils)}),
    "refuses-without-reason": (
        "it_refuses_what_it_cannot_export_with_a_reason",
        {"exporter_class": kind(vendor.Export, applicable=no)},
    ),
    "breaks": (
        "it_refuses_what_it_cannot_export_with_a_reason",
        {"exporter_class": kind(vendor.Export, applicable=lambda *_: Applicable(True), export=boom)},
    ),
    "heavy": ("importing_it_loads_nothing_heavy", {"exporter_class": kind(vendor.Export, __module__=HEAVY)}),
}
ALL = {
    TestTarget: TARGETS,
    TestMetric: METRICS,
    TestCommand: COMMANDS,
    TestSourcePass: SOURCES,
    TestExporter: EXPORTERS,
}
CASES = [(kit, name) for kit, bad in ALL.items() for name in bad]


@pytest.fixture
def given(tmp_path):
    """What a sound one is given; a case lays its own over it."""
    context = SourceContext(vendor.TARGET, tmp_path, logging.getLogger("x"), lambda share, text: None)
    return {
        TestTarget: {"target": vendor.TARGET, "backend_class": vendor.Backend, "model_path": str(models.mlp(tmp_path))},
        TestMetric: {
            "offered": vendor.NEAR,
            "samples": [sample(3), sample(5)],
            "metric": near(NearOptions(within=0.1)),
        },
        TestCommand: {"offered": vendor.SAY, "words": ["hello"], "command": vendor.say},
        TestSourcePass: {
            "pass_class": vendor.Merge,
            "source": vendor.loaded(),
            "nothing_to_do": Source(SourceRequest("nobody")),
            "target": vendor.TARGET,
            "source_context": context,
        },
        TestExporter: {
            "exporter_class": vendor.Export,
            "component": vendor.component(vendor.Scale()),
            "refused": vendor.component(object()),
            "target": vendor.TARGET,
            "source_context": context,
        },
    }


@pytest.mark.parametrize(("kit", "name"), CASES, ids=[f"{kit.__name__}-{name}" for kit, name in CASES])
def test_a_bad_one_fails_the_right_check(kit, name, given):
    check, wrong = ALL[kit][name]
    method = getattr(kit(), f"test_{check}")
    values = {**given[kit], **wrong}
    values.setdefault("offered", values.get("pass_class", values.get("exporter_class")))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        method(**{name: values[name] for name in inspect.signature(method).parameters})


@pytest.mark.parametrize("kit", ALL)
def test_every_check_fails_for_some_bad_one(kit):
    checks = {name.removeprefix("test_") for name in dir(kit) if name.startswith("test_")}
    assert checks == {check for check, _ in ALL[kit].values()}
