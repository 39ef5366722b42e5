from __future__ import annotations

import itertools

import pytest

from optim import OptimError, Pass, Stage
from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.ordering import order, unresolved_names
from optim._engine.plugins.plugin import PluginInfo


def offered(name, before=(), after=()):
    plugin = name.partition(".")[0]
    pass_class = type("AnyPass", (Pass,), {"name": name, "summary": "x", "before": before, "after": after})
    return OfferedPass(pass_class, Stage.FUSE, PluginInfo(plugin, f"optim-{plugin}", "1.0", "x"))


def names(*passes):
    return [place.name for place in order(passes)]


def test_without_constraints_names_decide():
    assert names(offered("b.x"), offered("a.y"), offered("a.x")) == ["a.x", "a.y", "b.x"]


def test_before_and_after_are_kept():
    passes = [offered("a.x", after=("c.x",)), offered("b.x"), offered("c.x", after=("b.x",))]
    assert names(*passes) == ["b.x", "c.x", "a.x"]
    assert names(offered("a.x"), offered("z.x", before=("a.x",))) == ["z.x", "a.x"]


def test_the_order_does_not_depend_on_the_order_of_installation():
    passes = [offered("a.x", after=("d.x",)), offered("b.x"), offered("c.x", before=("b.x",)), offered("d.x")]
    assert {tuple(names(*some)) for some in itertools.permutations(passes)} == {("c.x", "b.x", "d.x", "a.x")}


def test_a_plugin_star_means_all_its_passes():
    assert names(offered("a.x", after=("b:*",)), offered("b.x"), offered("b.y")) == ["b.x", "b.y", "a.x"]


def test_a_star_of_the_own_plugin_leaves_out_the_pass_itself():
    assert names(offered("a.a"), offered("a.z", before=("a:*",))) == ["a.z", "a.a"]


def test_a_pass_named_explicitly_is_an_exception_to_the_star():
    passes = [offered("a.x", after=("b:*",), before=("b.z",)), offered("b.y"), offered("b.z")]
    assert names(*passes) == ["b.y", "a.x", "b.z"]


def test_unknown_names_are_ignored_and_reported():
    passes = [offered("a.x", after=("nobody.y", "ghost:*"), before=("b.x",)), offered("b.x")]
    assert [one.name for one in order(passes)] == ["a.x", "b.x"]
    assert unresolved_names(passes) == {"a.x": ("nobody.y", "ghost:*")}


def test_each_place_has_its_reason():
    places = order([offered("a.x", after=("b:*",)), offered("b.x"), offered("c.x")])
    assert {place.name: place.reasons for place in places} == {
        "a.x": ("after b.x",),
        "b.x": ("before a.x, as a.x asks",),
        "c.x": ("by name: nothing orders it",),
    }


def test_a_cycle_names_both_ends_and_their_packages():
    with pytest.raises(OptimError) as cycle:
        order([offered("free.x"), offered("b.x", before=("a.x",)), offered("a.x", before=("b.x",))])
    error = cycle.value
    assert error.reference == "order-cycle"
    assert error.what == "a.x and b.x of stage fuse cannot be ordered"
    assert error.cause == "a.x (optim-a 1.0) asks to run before b.x; b.x (optim-b 1.0) asks to run before a.x"
    assert error.package == "optim-a 1.0, optim-b 1.0"
    assert "OPTIM_DISABLE_PLUGINS=b" in error.fix


def test_a_longer_cycle_is_told_from_its_first_name_on():
    passes = [offered("c.x", after=("b.x",)), offered("b.x", after=("a.x",)), offered("a.x", after=("c.x",))]
    causes = set()
    for some in itertools.permutations(passes):
        with pytest.raises(OptimError) as cycle:
            order(some)
        causes.add(cycle.value.cause)
    assert causes == {
        "b.x (optim-b 1.0) asks to run after a.x; c.x (optim-c 1.0) asks to run after b.x; "
        "a.x (optim-a 1.0) asks to run after c.x"
    }


def test_a_pass_that_asks_to_run_after_itself_is_a_cycle():
    with pytest.raises(OptimError, match=r"a\.x \(optim-a 1\.0\) asks to run before or after itself"):
        order([offered("a.x", after=("a.x",))])
