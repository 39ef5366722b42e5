"""``optim.lab`` beside what docs/python.md shows, and looks at a run that fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import optim
from optim._engine.plugins.offers import Offer
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.runs.lab.after_run import _answer
from optim._engine.search.board import Applied
from optim._engine.search.workbench import Workbench
from optim.after_run import Findings
from optim_testing import models

ACME = PluginInfo("acme", "optim-plugin-acme", "1.0", "acme.plugin")
pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with optim.lab(models.mlp(tmp_path_factory.mktemp("lab"))) as prepared:
        yield prepared


def test_a_pass_with_nothing_to_do_gives_the_same_model_and_its_reason(lab):
    found = lab.try_pass("ort.quantize-dynamic")
    assert not found.changed
    assert found.model.digest == lab.original.model.digest
    assert "constant float32 weight" in found.notes[0]


def test_passes_follow_one_another_and_the_drift_is_to_the_original(lab):
    clean = lab.try_pass("ort.clean")
    half = lab.try_pass("ort.convert-float16", on=clean)
    assert half.name.endswith("ort.clean ort.convert-float16")
    assert clean.drift == 0 < half.drift < 1e-2
    assert lab.compare(half).drift == pytest.approx(half.drift, rel=0.5)


def test_a_pass_that_fails_is_an_error_that_names_its_package(lab, monkeypatch):
    monkeypatch.setattr(Workbench, "try_one", lambda *_: Applied(None, "it broke", 0.1))
    with pytest.raises(optim.OptimError, match="it broke") as caught:
        lab.try_pass("ort.clean")
    assert (caught.value.reference, caught.value.package.split()[0]) == ("pass-failed", "optim-plugins")


def test_an_option_that_a_pass_does_not_have_is_refused(lab):
    with pytest.raises(optim.OptimError) as caught:
        lab.try_pass("ort.clean", nothing=1)
    assert caught.value.reference == "unknown-option"


def test_outputs_of_another_program_are_held_against_the_original(lab):
    fed = [(lab.sample(number), lab.expected(number)) for number in lab.setup.samples]
    (same,) = lab.compare_outputs((feeds, expected, expected) for feeds, expected in fed)
    assert (same.relative_error, same.is_rounding) == (0, True)
    far = [(feeds, expected, {name: 1.1 * value for name, value in expected.items()}) for feeds, expected in fed]
    (other,) = lab.compare_outputs(far)
    assert other.relative_error > 0.05
    assert not other.is_rounding


def broken(run):
    raise RuntimeError("no disk")


@pytest.mark.parametrize(
    ("function", "note"),
    [
        ("broken", "plugin acme could not look at the run: RuntimeError: no disk"),
        ("dict", "plugin acme could not look at the run: dict returned no Findings"),
    ],
)
def test_a_look_that_fails_leaves_a_note_and_the_verdict(function, note):
    noted = []
    bench = SimpleNamespace(deadline=SimpleNamespace(note=noted.append))
    module = __name__ if function == "broken" else "builtins"
    offer = Offer(function, f"{module}:{function}", "optim_after_run", ACME)
    assert _answer(offer, (), bench) == Findings()
    assert noted[0].startswith(note)
