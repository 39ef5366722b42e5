"""What goes on from a stage: beneath 8 bits another fusion than in floats."""

from __future__ import annotations

from pathlib import Path

from optim._engine.search.explore.beam import in_turns
from optim._engine.search.explore.promise import Promises
from optim._engine.search.state import Candidate, Step
from optim.model import Model
from optim.passes import PassResult, Role, Stage

NAMED = Step(Stage.QUANTIZE, "named", "plugin", {}, Role.IMPROVE, lossy=True)


def candidate(*steps: Step) -> Candidate:
    digest = f"model-{len(steps)}"
    return Candidate(Model(Path(f"{digest}.onnx"), digest, (), (), {"": 17}, 9), 100, steps)


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
