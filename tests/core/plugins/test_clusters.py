"""Which plugin has the machines behind ``--cluster``, and what is said if nobody has them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from optim._engine.cli.main import main
from optim._engine.plugins import registry as registries
from optim._engine.plugins.checks import class_defect
from optim._engine.plugins.chosen_targets import find_cluster
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.plugins.registry import load_registry
from optim.errors import ExitStatus, OptimError
from optim.workplace import Cluster

ACME = PluginInfo("acme", "optim-plugin-acme", "1.0", "acme.plugin")


class Anything(Cluster):
    name = "acme-anything"

    def check(self, where):
        pass

    def connect(self, request):
        raise NotImplementedError


class Ray(Anything):
    name = "acme-ray"
    schemes = ("ray", "rays")


def offering(*offered):
    """A registry whose plugins offer these classes of clusters, and have no plugin called fleet."""
    found = load_registry(only={"ort"})
    found._named["workplace"] = {one.name: SimpleNamespace(value=one) for one in offered}
    return found


@pytest.mark.parametrize(
    ("where", "found"), [("ray:4", Ray), ("rays://host:1", Ray), ("local:2", Anything), ("a.b:ray", Anything)]
)
def test_the_cluster_with_the_scheme_is_taken_and_else_the_one_without(where, found):
    for order in ([Ray, Anything], [Anything, Ray]):
        assert type(find_cluster(offering(*order), where)) is found


def test_without_the_package_the_error_names_the_line_that_installs_it():
    for registry in (offering(), offering(Ray)):
        with pytest.raises(OptimError) as caught:
            find_cluster(registry, "local:2")
        assert caught.value.reference == "plugin-missing"
        assert caught.value.what == "--cluster local:2 cannot be used"
        assert caught.value.fix == "in a clone of optim: pip install ./plugins-fleet"


def test_a_plugin_that_is_disabled_is_named(monkeypatch):
    monkeypatch.setenv("OPTIM_DISABLE_PLUGINS", "fleet")
    with pytest.raises(OptimError, match="plugin fleet is disabled") as caught:
        find_cluster(load_registry(), "local:2")
    assert caught.value.reference == "plugin-failed"


@pytest.mark.parametrize(
    ("verb", "folder"),
    [
        ("batch", "plugins-fleet"),
        ("blame", "plugins"),
        ("profile", "plugins"),
        ("sensitivity", "plugins"),
        ("reduce", "plugins"),
        ("draw", "plugins"),
        ("deliver", "plugins"),
        ("layouts", "plugins"),
    ],
)
def test_a_verb_without_its_package_names_the_line_that_installs_it(verb, folder, monkeypatch, capsys):
    monkeypatch.setattr(registries, "load_registry", lambda: load_registry(only={"ort"}))
    for words in ([verb, "models.toml", "-o", "outs"], ["help", verb]):
        assert main(words) == ExitStatus.USAGE
        assert f"fix:   in a clone of optim: pip install ./{folder}\n" in capsys.readouterr().err


def test_a_run_on_a_cluster_without_its_package_ends_before_it_begins(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(registries, "load_registry", lambda: load_registry(only={"ort"}))
    (tmp_path / "m.onnx").write_bytes(b"x")
    assert (
        main(["run", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out"), "--cluster", "local:2"]) == ExitStatus.USAGE
    )
    assert "fix:   in a clone of optim: pip install ./plugins-fleet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("members", "defect"),
    [
        ({}, ""),
        ({"schemes": "ray"}, "workplace acme-anything: 'schemes' must be a tuple of texts, not 'ray'"),
        ({"name": "A B"}, "class Offered has the name 'A B'; names are in lower case, e.g. 'onnxruntime'"),
        ({"name": "dask"}, "workplace dask is reserved for plugin fleet: call it acme-dask"),
    ],
)
def test_what_is_no_class_of_clusters_is_refused(members, defect):
    offered = type("Offered", (Anything,), {"__qualname__": "Offered", **members})
    assert class_defect("workplace", offered, ACME) == defect
    assert class_defect("workplace", Cluster, ACME) == "class Cluster does not implement check, connect"
    assert class_defect("workplace", Anything(), ACME).endswith("not a subclass of Cluster")
