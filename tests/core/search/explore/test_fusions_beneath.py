"""What the search learns of a fused graph before it is quantized: how much of its work 8 bits still reach."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from deadlines import search_of
from onnx import TensorProto, helper, numpy_helper

from optim._engine.gate.budget import Objection
from optim._engine.gate.drift import NO_DRIFT
from optim._engine.goals.known import LATENCY
from optim._engine.jobs.offer import Proposal
from optim._engine.search.explore.asking import Proposals
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import Promises
from optim._engine.search.journal import Journal, step_of
from optim._engine.search.state import Candidate, Measured, Step
from optim._engine.trace import Action
from optim.model import Model
from optim.passes import PassResult, Role, Stage

WEIGHTS = Step(Stage.QUANTIZE, "weights", "plugin", {}, Role.IMPROVE, lossy=True)


def offered(stage):
    attributes = {"role": Role.IMPROVE, "lossy": False, "session_only": False, "alternatives": None, "kept": ""}
    kind = SimpleNamespace(**attributes)
    return SimpleNamespace(name="fuse", stage=stage, plugin=SimpleNamespace(name="plugin"), over_models=kind)


def saved(folder, name, *nodes):
    """A graph of two products with weights of 8 x 8 and 8 x 24, or what nodes make of them."""
    shapes = {"w": (8, 8), "v": (8, 24)}
    constants = [numpy_helper.from_array(np.zeros(shape, np.float32), key) for key, shape in shapes.items()]
    ends = [helper.make_tensor_value_info(key, TensorProto.FLOAT, None) for key in ("x", "y")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)), folder / f"{name}.onnx")
    return Candidate(Model(folder / f"{name}.onnx", name, (), (), {"": 17}, 9), 100)


@pytest.fixture
def original(tmp_path):
    first, second = helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])
    return saved(tmp_path, "original", first, second)


@pytest.fixture
def packed(tmp_path):
    first = helper.make_node("MatMul", ["x", "w"], ["h"])
    return saved(tmp_path, "packed", first, helper.make_node("Attention", ["h", "v"], ["y"], domain="com.microsoft"))


@pytest.fixture
def expander(original, monkeypatch):
    """Of a run whose budget allows everything; a step in 8 bits takes 0.4 of the original's time."""
    budget = SimpleNamespace(objection=lambda *arguments, **words: Objection(), limit=lambda is_lossy: 1.0)
    settings = SimpleNamespace(timeout_s=300.0)
    runner = SimpleNamespace(noted=lambda name, request: nullcontext(Action()))
    bench = SimpleNamespace(
        original=original, goal=LATENCY, budget=budget, settings=settings, work={}, target=None, runner=runner
    )
    promises, archive = Promises(60.0), SimpleNamespace(judged=lambda candidate, objection: None)
    promises.note_ratio(WEIGHTS, 0.4)
    monkeypatch.setattr("optim._engine.search.explore.expand.worst_drift", lambda comparisons: NO_DRIFT)
    return Expander(bench, Journal(), archive, search_of(60.0, 300.0), promises)


def judged(expander, original, model, stage):
    result = PassResult(model, changed=True)
    answer = SimpleNamespace(result=result, comparisons=[], task=None, size_bytes=100)
    tried = SimpleNamespace(seconds=1.0, ran_out=False, said=(), trace="", broke=False, answer=answer, failure="")
    attempt = expander._journal.open(step_of(offered(stage)), original)
    return expander.judge(original, attempt, tried)


def test_a_fused_graph_that_holds_is_looked_at_for_what_8_bits_reach(expander, original, packed):
    assert judged(expander, original, packed.model, Stage.FUSE).digest == "packed"
    assert expander.promises.gain_on("packed", WEIGHTS) == pytest.approx(-math.log(1 - 0.25 * 0.6))
    assert expander.promises.gain_on("original", WEIGHTS) == pytest.approx(-math.log(0.4))


def test_what_no_fusion_made_is_not_looked_at(expander, original, packed):
    assert judged(expander, original, packed.model, Stage.TUNE) is not None
    assert expander.promises.gain_on("packed", WEIGHTS) == pytest.approx(-math.log(0.4))


def test_beneath_8_bits_the_first_that_a_pass_of_fusions_proposes_stands_for_the_others(expander, original):
    promises, first, second = expander.promises, Proposal({"kind": "first"}), Proposal({"kind": "second"})
    promises.note_ratio(step_of(offered(Stage.FUSE), {"kind": "elsewhere"}), 0.9)
    promises.note_held(WEIGHTS)
    promises.note_latency([Measured(original, 1.0), Measured(Candidate(Model("b", "b", (), (), {}, 9), 1), 0.4)])
    expander.asker = SimpleNamespace(ask=lambda candidate, passes: {"fuse": Proposals((first, second))})
    tried = []
    expander._apply = lambda candidate, wanted: tried.extend(one.proposal for one in wanted) or []
    fuse = offered(Stage.FUSE)
    planned = SimpleNamespace(
        offered=fuse, pass_class=fuse.over_models, forced=False, ordered=SimpleNamespace(name="fuse", offered=fuse)
    )
    expander._bench.has_tried = lambda trial: False
    expander._try_slot(original, [planned])
    assert tried == [first]
