"""Passes on models that nobody here wrote do the right thing, or decline with a reason; and the suite would see it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassOptions, PassResult, Target
from suite.backend_models import Case, node_cases
from suite.known import KNOWN
from suite.sample import SAMPLE
from suite.trials import INGEST, Outcome, Result, Subject, model_passes, try_ingest, try_pass
from suite.whole import escapes, table, try_all
from suite.worker import Work

_NOTHING_THERE = (
    "ort.exact-integers",
    "ort.quantize-dynamic",
    "ort.quantize-past",
    "ort.quantize-weights",
    "ort.share-past",
)
"""They reach models in 8 bits, products with large weights, and decoders with a past: none of these is here."""


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return list(try_all(Work(names=SAMPLE, thorough=False), processes=1))


@pytest.mark.slow
def test_no_pass_is_wrong_and_none_raises(results: Sequence[Result]) -> None:
    assert not escapes(results), table(results)


@pytest.mark.slow
def test_every_case_of_the_sample_was_tried(results: Sequence[Result]) -> None:
    assert {result.case for result in results} == set(SAMPLE)
    assert Counter(result.outcome for result in results if result.name == INGEST) == {Outcome.RIGHT: len(SAMPLE)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [found.name for found in model_passes() if found.name not in _NOTHING_THERE])
def test_every_pass_did_something(name: str, results: Sequence[Result]) -> None:
    assert any(result.name == name and result.outcome is Outcome.RIGHT for result in results)


@pytest.mark.slow
def test_what_changed_nothing_says_why(results: Sequence[Result]) -> None:
    quiet = (Outcome.DECLINED, Outcome.NOTHING)
    assert not [result for result in results if result.outcome in quiet and not result.reason.strip()]


def test_what_is_known_not_to_be_right_has_a_reason() -> None:
    assert all(reason.strip() for reason in KNOWN.values())


# That the suite sees it.


class _Renaming(Pass):
    name = "suite.control"
    summary = "control"

    def applicable(self, model: Model, target: Target) -> Applicable:
        return APPLICABLE

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Another operator in the place of the first."""
        graph = model.ir()
        next(iter(graph.graph)).op_type = "Neg"
        return PassResult(context.save(graph, model), changed=True, counts={"nodes": 1})


class _Raising(_Renaming):
    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        raise KeyError("")


class _Silent(_Renaming):
    def applicable(self, model: Model, target: Target) -> Applicable:
        return Applicable.no("")


class Dying(_Renaming):
    """Ends its process."""

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        os._exit(7)


def _abs() -> Case:
    return next(node_cases(["abs"]))


def _only(pass_class: type[Pass], folder: Path) -> Result:
    subject = Subject(_abs(), folder)
    assert try_ingest(subject).outcome is Outcome.RIGHT
    (result,) = try_pass(subject, pass_class)
    return result


def test_another_result_is_wrong(tmp_path: Path) -> None:
    result = _only(_Renaming, tmp_path)
    assert result.outcome is Outcome.WRONG
    assert "drift" in result.reason


def test_an_exception_is_named_with_its_place(tmp_path: Path) -> None:
    result = _only(_Raising, tmp_path)
    assert result.outcome is Outcome.RAISED
    assert result.reason.startswith("KeyError at test_backend_models.py:")


def test_declining_without_a_reason_is_wrong(tmp_path: Path) -> None:
    assert _only(_Silent, tmp_path).outcome is Outcome.WRONG


@pytest.mark.slow
def test_a_process_that_dies_costs_the_trial_it_was_at() -> None:
    work = Work(modules=("abs",), names=("test_abs", "test_abs+open"), passes=("suite.test_backend_models:Dying",))
    results = list(try_all(work, processes=1))
    assert [(found.case, found.name) for found in results if found.outcome is Outcome.RAISED] == [
        ("test_abs", "suite.control"),
        ("test_abs+open", "suite.control"),
    ]
