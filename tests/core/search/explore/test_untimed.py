"""What goes on from a stage: beneath 8 bits another fusion than in floats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from boards import timed_at

from optim._engine.search.explore.beam import in_turns, leading
from optim._engine.search.explore.promise import Promises
from optim._engine.search.state import ITSELF, Candidate, Measured, Step
from optim.model import Model
from optim.passes import PassResult, Role, Stage

NAMED = Step(Stage.QUANTIZE, "named", "plugin", {}, Role.IMPROVE, lossy=True)


def candidate(*steps: Step) -> Candidate:
    digest = f"model-{len(steps)}"
    return Candidate(Model(Path(f"{digest}.onnx"), digest, (), (), {"": 17}, 9), 100, steps)


def test_the_fastest_fusion_leads_what_makes_a_model_smaller() -> None:
    packed, plain, other = (Candidate(Model(Path("m"), name, (), (), {}, 9), 1, (NAMED,)) for name in "abc")
    ready = [timed_at(packed, 0.84), timed_at(other, 0.86), timed_at(plain, 0.88), Measured(candidate())]
    assert leading(ready, 2, ()) == ready[:2]
    assert leading(ready[3:], 2, ()) == ready[3:], "nothing was timed"
    fuse = Step(Stage.FUSE, "fuse", "plugin", {}, Role.IMPROVE, lossy=False)
    first = [timed_at(replace(candidate(*steps), size_bytes=1), 0.5) for steps in ([fuse], [fuse, NAMED])]
    assert leading(ready, 2, first) == [first[0], ready[0]], "of first looks fusions alone"


def test_a_fusion_that_may_be_the_fastest_goes_on_beside_what_is_the_best_for_now() -> None:
    fuse = Step(Stage.FUSE, "fuse", "plugin", {}, Role.IMPROVE, lossy=False)
    cleaned = Candidate(Model(Path("m"), "cleaned", (), (), {}, 9), 1, (fuse,))
    ready = [timed_at(cleaned, 0.85, 0.8, 1.1), Measured(candidate(), ITSELF)]
    looked = [timed_at(candidate(fuse), 1.07, 0.78, 1.12)]
    assert leading(ready, 2, looked) == [ready[0], looked[0]]


def test_a_fusion_is_a_reason_to_lead_once_what_is_made_of_it_holds_and_gains() -> None:
    promises = Promises(60.0)
    promises.note_ratio(NAMED, 0.4)
    assert not promises.has_later
    promises.note_held(NAMED)
    assert promises.has_later


def test_settings_that_were_slower_before_come_after_the_graph_as_it_is() -> None:
    graph, tune = candidate(NAMED), Step(Stage.TUNE, "tune", "plugin", {"level": "basic"}, Role.IMPROVE, lossy=False)
    tuned, promises = (
        graph.after(tune, PassResult(Model(Path("t.onnx"), "t", (), (), {"": 17}, 9), True)),
        Promises(60.0),
    )
    for ratio, order in ((0.9, [tuned, graph]), (1.2, [graph, tuned])):
        promises = Promises(60.0)
        promises.note_ratio(tune, ratio)
        assert in_turns([graph], {graph.digest: [tuned]}, promises) == order
    assert in_turns([graph], {graph.digest: []}, promises) == [graph]
