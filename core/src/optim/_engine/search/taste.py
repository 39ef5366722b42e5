"""Tastes of a search: what no measurement says. A number that stands here stands nowhere else."""

from __future__ import annotations

import math

WORTH = 0.98
"""Latency to the original's: a gain of less than 2 % is worth no time: processes of one graph differ by as much."""

TOO_LITTLE = -math.log(WORTH)
"""The same as a gain."""

DIFFER = 1.05
"""The same graph differs by some per cent from process to process: what is slower by more does not contend."""

CLEARLY_FASTER = 1 / DIFFER
"""Latency to another's that three rounds on a busy machine do not make up, and of which a repair leaves something."""

SAME = 0.01
"""Within one per cent two models are as fast, as large and as accurate: processes of one graph differ by more."""

HANGS_S = 900.0
"""What takes longer has hung: opening the original, a round of a race, a turn at the clock of another run."""

PAIR, FEW, SEVERAL = 2, 3, 5
"""How wide to look. The best and the next one: models that are timed a second time, or looked at whatever the time if
they are slow, and passes that are repaired. A few beside the best: models at the end, settings that a new graph is
looked at through, other proposals of a pass, names in a sentence. Several: models that are looked at whatever the time,
since the best of fewer says little about a stage, and whose proof is reserved. More of them leave each less."""

LOOKS = 1 / 3
"""Share of a search in which the best guess of every pass is tried: with less, slow machines try some only."""

PART = 0.2
"""Share of a run for each thing beside its candidates: the original, races, and a proof that takes longer."""

DEAR = 0.1
"""Share of the search that one pass may take before it has shown a gain, to be asked or to be tried."""

BUSY = 0.5
"""Share of disturbed rounds from which a report speaks of them, and a gain of settings alone is undecided."""
