"""Tastes of a search: what no measurement says. A number that stands here stands nowhere else."""

from __future__ import annotations

import math

WORTH = 0.98
"""Latency to the original's: a gain of less than 2 % is worth no time: processes of one graph differ by as much."""

TOO_LITTLE = -math.log(WORTH)
"""The same as a gain."""

DIFFER = 1.05
"""The same graph differs by some per cent from process to process: what is slower by more does not contend. What is
faster by more is clearly faster: three rounds on a busy machine do not make that up, and a repair leaves some of it."""

SAME = 0.01
"""Within one per cent two models are as fast, as large and as accurate: processes of one graph differ by more."""

HANGS_S = 900.0
"""What takes longer has hung: opening the original, a round of a race, a turn at the clock of another run."""

SURPRISE = 1.3
"""What was measured elsewhere is off by this factor at most: a step on another chain, calls beside a whole answer."""

KEPT = 0.2
"""Share of a run for what is no search: a fifth for the original, before anything is tried, a fifth of the search for
races, and a fifth more for a proof that a busy machine draws out, of which a race that proves nothing has a fifth."""

FEW = 3
"""So many are looked at beside the best: settings of a new graph, other proposals, models at the end. Each costs a
lane, and leaves the others fewer rounds."""

TURN = 0.5
"""Share of the time that is left, for one repair: with more, nothing is left to go on with."""

DEAR = 0.1
"""Share of the search that one pass may take before it has shown a gain, to be asked or to be tried."""

BUSY = 0.5
"""Share of disturbed rounds from which a report speaks of them, and a gain of settings alone is undecided."""
