"""Sequences of tensors: a candidate has as many elements as the original, on every sample."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from optim._engine.compare.comparison import compare_raw
from optim._engine.compare.place import compare_run
from optim._engine.gate.drift import worst_drift
from optim.drift import compare_outputs
from optim.errors import OptimError
from optim.passes import Interface

BOX = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("elements", [[BOX, BOX], [BOX, BOX * 9, BOX]])
def test_an_element_too_many_is_a_problem(elements):
    reference = SimpleNamespace(
        expected=lambda _: {"boxes[0]": BOX}, original=SimpleNamespace(inputs=(), outputs=()), max_mismatch=0.0
    )
    right = compare_run({"boxes": [BOX]}, reference, 0, {}, (), {})
    wrong = compare_run({"boxes": elements}, reference, 0, {}, (), {})
    assert worst_drift(right).relative_error == 0.0
    assert worst_drift(wrong).relative_error == np.inf
    assert "output 'boxes[1]' is an element too many" in [one.problem for one in wrong]
    assert worst_drift(compare_outputs([({"boxes": [BOX]}, {"boxes": elements})])).relative_error == np.inf
    assert worst_drift(compare_outputs([({"boxes": elements}, {"boxes": elements})])).relative_error == 0.0


@pytest.mark.parametrize(
    ("expected", "got"),
    [({"y": [BOX]}, {"y": [BOX, BOX]}), ({"y": BOX, "s": []}, {"y": BOX, "s": [BOX]}), ({"z": None}, {"z": BOX})],
)
def test_a_recast_model_gives_no_more_than_its_interface_says(monkeypatch, expected, got):
    module = ModuleType("raw_samples")
    module.raw, module.given, module.expected = lambda: [{"x": BOX}], lambda raw: raw, lambda outputs, raw: outputs
    monkeypatch.setitem(sys.modules, "raw_samples", module)
    interface = Interface(raw="raw_samples:raw", given="raw_samples:given", expected="raw_samples:expected")
    inner, candidate = (SimpleNamespace(run=lambda feeds, made=made: made) for made in (expected, got))
    with pytest.raises(OptimError) as caught:
        compare_raw(candidate, inner, [interface])
    assert caught.value.reference == "interface-changed"
