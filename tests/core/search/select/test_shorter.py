"""What a chain may be shortened to, without any pass that is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from boards import board_of

from optim._engine.search.select.chains import Chains
from optim._engine.search.state import Candidate, Step
from optim.model import Model
from optim.passes import Role, Stage

FIX = Step(Stage.FUSE, "fix", "ours", {}, Role.REQUESTED, lossy=False)
FUSE = Step(Stage.FUSE, "fuse", "ours", {}, Role.IMPROVE, lossy=False)


@pytest.mark.parametrize(("named", "left"), [(("fix",), ["fix"]), (("fix", "fuse"), [])])
def test_a_chain_without_a_named_improving_pass_is_no_result(monkeypatch, named, left):
    monkeypatch.setattr(Chains, "apply", lambda _, steps: [step.pass_name for step in steps])
    shorter = Chains(None, board_of(required=named), None, None)
    candidate = Candidate(Model(Path("m"), "m", (), (), {}, 9), 1, (FIX, FUSE))
    assert shorter.only_what_was_asked_for(candidate) == ([left] if left else [])
