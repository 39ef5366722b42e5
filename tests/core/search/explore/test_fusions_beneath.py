"""Which fusions are tried for what they take off a model in 8 bits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from deadlines import search_of

from optim._engine.gate.budget import Budget
from optim._engine.goals.known import LATENCY
from optim._engine.jobs.offer import Proposal
from optim._engine.search.board import Board
from optim._engine.search.explore.asking import Proposals
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import Promises
from optim._engine.search.rows import step_of
from optim._engine.search.state import Candidate, Measured, Step
from optim.model import Model
from optim.passes import Role, Stage

WEIGHTS = Step(Stage.QUANTIZE, "weights", "plugin", {}, Role.IMPROVE, lossy=True)


def offered(stage):
    attributes = {"role": Role.IMPROVE, "lossy": False, "session_only": False, "alternatives": None, "kept": ""}
    kind = SimpleNamespace(**attributes)
    return SimpleNamespace(name="fuse", stage=stage, plugin=SimpleNamespace(name="plugin"), over_models=kind)


@pytest.fixture
def original(tmp_path):
    return Candidate(Model(tmp_path / "original.onnx", "original", (), (), {"": 17}, 9), 100)


@pytest.fixture
def expander(original):
    """Of a run whose budget allows everything; a step in 8 bits takes 0.4 of the original's time."""
    bench = SimpleNamespace(original=original, goal=LATENCY, budget=None, work={}, target=None)
    promises = Promises(60.0)
    promises.note_ratio(WEIGHTS, 0.4)
    return Expander(bench, Board(Budget(0.05, 1e-4)), search_of(60.0, 300.0), promises)


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
