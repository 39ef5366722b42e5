"""A repair that was cut short goes on while there is time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from deadlines import original as known

from optim._engine.gate.budget import Budget
from optim._engine.goals.known import LATENCY
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline, Start
from optim._engine.search.explore.beam import Beam
from optim._engine.search.explore.ranking import Ranking
from optim._engine.search.objective import Objective
from optim._engine.search.state import Candidate, Measured
from optim.model import Model


def chain(name, tmp_path):
    return Candidate(Model(tmp_path / name, name, (), (), {"": 17}, 9), 100)


@pytest.mark.parametrize(("spent_s", "found"), [(5.0, ["refined", "rough"]), (57.0, ["rough"])])
def test_a_repair_that_was_cut_short_is_taken_up_again_while_there_is_search_time(tmp_path, spent_s, found):
    seconds, asked = [0.0], []
    run = Deadline(60.0, lambda: seconds[0], Start())
    run.note_size(1)
    time = run.of_search(known(open_s=0.1, run_s=0.01), 300.0)
    time.repairs.give(0.0)
    seconds[0] += spent_s

    def refine(candidate):
        asked.append((candidate.digest, time.left_for_repairs))
        return chain("refined", tmp_path)

    board = Board(Budget(0.05, 1e-4))
    clock = SimpleNamespace(base=None, board=board)
    ranking = Ranking(Objective(LATENCY, timed=True), clock, chain("o", tmp_path), timed=True)
    expander = SimpleNamespace(repairs=SimpleNamespace(refine=refine))
    beam = SimpleNamespace(time=time, board=board, _expander=expander, _rank=ranking)
    ranked = Beam._refined(beam, [Measured(chain("rough", tmp_path), 0.8)])
    assert [one.digest for one in ranked] == found
    assert ranking.figure(ranked[0]) == pytest.approx(0.8)
    assert time.left_for_repairs <= 0
    assert not asked or asked[0][1] > 5
