"""Which passes have their first look however slow the machine is."""

from __future__ import annotations

from types import SimpleNamespace

from optim._engine.search.explore.promise import leading_of
from optim.passes import Stage


def named(name, stage, plugin):
    pass_class = SimpleNamespace(session_only=False, goals=(), lossy=stage is not Stage.FUSE)
    offered = SimpleNamespace(stage=stage, plugin=SimpleNamespace(name=plugin))
    return SimpleNamespace(name=name, offered=offered, pass_class=pass_class)


def test_settings_of_a_plugin_lead_nothing():
    quick, slow = named("quick", Stage.QUANTIZE, "one"), named("slow", Stage.QUANTIZE, "one")
    tune = named("tune", Stage.TUNE, "one")
    tune.pass_class.session_only, tune.pass_class.lossy = True, False
    gains = {"quick": 0.8, "slow": 0.8, "tune": 0.03}
    assert leading_of([tune, quick, slow], [quick, slow, tune], gains) == [quick]


def test_the_best_of_each_plugin_and_of_each_stage_lead():
    quick, slow = named("quick", Stage.QUANTIZE, "one"), named("slow", Stage.QUANTIZE, "one")
    clean, fuse = named("clean", Stage.FUSE, "one"), named("fuse", Stage.FUSE, "one")
    theirs, also = named("theirs", Stage.QUANTIZE, "two"), named("also", Stage.FUSE, "two")
    worse = named("worse", Stage.CONVERT_PRECISION, "one")
    gains = {"quick": 0.8, "slow": 0.9, "clean": 0.1, "fuse": 0.1, "theirs": 0.3, "also": 0.1, "worse": -0.4}
    alone = [clean, fuse, quick, slow, worse]
    assert leading_of([quick, slow, clean, fuse, worse], alone, gains) == [quick, fuse, clean]
    assert leading_of([quick, slow, clean, fuse, worse], alone, {**gains, "clean": 0.09}) == [quick, fuse]
    both = [quick, theirs, slow, also, clean, fuse, worse]
    assert leading_of(both, [*alone, theirs, also], gains) == [quick, theirs, also]
    assert leading_of(both, [*alone, also, theirs], {**gains, "fuse": 0.2}) == [quick, theirs, fuse]
