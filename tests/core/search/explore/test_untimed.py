"""What goes on from a stage for whose race there is no time: never a chain without the pass that the user named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from optim._engine.search.explore.beam import Beam
from optim._engine.search.explore.grown import Grown
from optim._engine.search.explore.promise import Promises
from optim._engine.search.state import Candidate, Measured, Step
from optim.model import Model
from optim.passes import Role, Stage

NAMED = Step(Stage.QUANTIZE, "named", "plugin", {}, Role.IMPROVE, lossy=True)


def candidate(*steps: Step) -> Candidate:
    digest = f"model-{len(steps)}"
    return Candidate(Model(Path(f"{digest}.onnx"), digest, (), (), {"": 17}, 9), 100, steps)


def test_without_time_a_pass_that_was_named_is_still_on_every_chain() -> None:
    beam = SimpleNamespace(_promises=Promises(60.0), _looked={})
    original, with_it = candidate(), candidate(NAMED)
    parents = {with_it.digest: Measured(original, 1.0)}
    start = [Measured(original, 1.0)]
    assert set(Beam._untimed(beam, Grown([with_it], parents), start)) == {with_it.digest}
    assert set(Beam._untimed(beam, Grown([original, with_it], parents), start)) == {original.digest, with_it.digest}
