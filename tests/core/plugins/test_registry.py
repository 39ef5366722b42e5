from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from plugin_packages import GOOD, Site, site

from optim import OptimError, Stage
from optim._engine.plugins.registry import _FOLDERS, load_registry
from optim._engine.plugins.survey import survey_plugins
from optim.hooks import RESERVED_NAMES

__all__ = ["site"]

HOOKS = """
from optim import APPLICABLE, Backend, BackendLimits, Metric, Pass, PassResult, Role, Target, hookimpl
OPTIM_HOOK_API = 1

class Base(Pass):
    summary = "Does something."
    def applicable(self, model, target): return APPLICABLE
    def apply(self, model, options, context): return PassResult(model, False, ("nothing",))
"""


def fuse(body: str, returned: str) -> str:
    return f"{HOOKS}\n{body}\n@hookimpl\ndef optim_fuse(target):\n    return {returned}\n"


def reasons(registry):
    return [str(problem) for problem in registry.problems]


@pytest.fixture
def device(site: Site):
    """A plugin ``acme`` that is sound, and its target."""
    site.add("acme", GOOD)
    return load_registry(only={"acme"}).target("acme-device")


def test_an_offer_carries_its_stage_and_plugin(device):
    (offered,) = load_registry(only={"acme"}).passes(Stage.FUSE, device)
    assert (offered.name, offered.stage, offered.plugin.package) == ("acme.shrink", Stage.FUSE, "optim-acme")


RAISING = {
    "raises": ("raise RuntimeError('out of ideas')", "raised RuntimeError: out of ideas"),
    "exits": ("raise SystemExit(2)", "optim_fuse would have ended the program (SystemExit, status 2)"),
    "returns-nothing": ("pass", "returned None, not a sequence"),
    "returns-text": ("return 'bad.pass'", "returned something of type str, not a sequence"),
    "returns-a-generator": ("yield Base", "returned something of type generator, not a sequence"),
}


@pytest.mark.parametrize("kind", RAISING)
def test_a_hook_that_fails_costs_only_its_own_offer(site, device, kind):
    body, reason = RAISING[kind]
    site.add(
        "bad",
        f"{HOOKS}\n@hookimpl\ndef optim_fuse(target):\n    {body}\n@hookimpl\n"
        "def optim_targets():\n    return [Target('bad-device', 'b', runtime='r')]",
    )
    registry = load_registry(only={"acme", "bad"})
    assert [offered.name for offered in registry.passes(Stage.FUSE, device)] == ["acme.shrink"]
    assert reasons(registry) == [f"bad (optim-bad 1.0): optim_fuse: {reason}"]
    assert "bad-device" in registry.targets()


NAMED = "class P(Base):\n    name = 'bad.p'\n    "
GARBAGE = {
    "no-class": ("", "[3]", "returned something of type int, not a subclass of Pass"),
    "an-instance": (NAMED, "[P()]", "returned something of type P, not a subclass of Pass"),
    "another-class": ("", "[dict]", "returned class dict, not a subclass of Pass"),
    "abstract": ("class P(Pass): name = 'bad.p'", "[P]", "class P does not implement applicable, apply"),
    "no-name": ("class P(Base): pass", "[P]", "class P has the name None; it must be plugin dot kebab-case"),
    "a-bad-name": ("class P(Base): name = 'bad.Do_It'", "[P]", "class P has the name 'bad.Do_It'; it must be"),
    "a-name-of-another": ("class P(Base): name = 'acme.shrink'", "[P]", "acme.shrink must be called bad.shrink"),
    "no-summary": (NAMED + "summary = ''", "[P]", "pass bad.p needs a summary of one line"),
    "text-as-before": (NAMED + "before = ('acme.shrink')", "[P]", "'before' must be a tuple"),
    "a-wrong-role": (NAMED + "role = 'improve'", "[P]", "'role' must be one of Role.IMPROVE"),
    "wrong-options": (NAMED + "options = 'Options'", "[P]", "must be a class or 'package.module"),
    "a-wrong-lossy": (NAMED + "lossy = 'no'", "[P]", "'lossy' must be True or False"),
    "a-wrong-makes": (NAMED + "makes = ('int8',)", "[P]", "'makes' must be a text"),
    "a-wrong-hardware": (NAMED + "hardware = None", "[P]", "'hardware' must be a text"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_an_unusable_pass_is_named_and_left_out_and_the_rest_stays(site, device, kind):
    body, returned, reason = GARBAGE[kind]
    site.add("bad", fuse(f"class Fine(Base):\n    name = 'bad.fine'\n{body}", f"[Fine, *{returned}]"))
    registry = load_registry(only={"acme", "bad"})
    assert [offered.name for offered in registry.passes(Stage.FUSE, device)] == ["acme.shrink", "bad.fine"]
    (problem,) = reasons(registry)
    assert reason in problem


def test_one_name_for_two_passes_loses_both(site, device):
    site.add("bad", fuse("class A(Base):\n    name = 'bad.p'\nclass B(Base):\n    name = 'bad.p'", "[A, B]"))
    registry = load_registry(only={"acme", "bad"})
    with pytest.raises(OptimError, match=r"bad\.p is also offered by bad \(optim-bad 1\.0\) in optim_fuse") as error:
        registry.find_pass("bad.p", device)
    assert error.value.reference == "plugin-failed"


def test_two_plugins_with_one_target_lose_it_and_both_are_named(site):
    for plugin in ("one", "two"):
        site.add(plugin, f"{HOOKS}\n@hookimpl\ndef optim_targets():\n    return [Target('gpu', 'b', runtime='r')]")
    registry = load_registry(only={"one", "two"})
    assert registry.targets() == {}
    assert [(problem.plugin.name, problem.reason) for problem in registry.problems] == [
        ("one", "target gpu is also offered by two (optim-two 1.0) in optim_targets; neither is used"),
        ("two", "target gpu is also offered by one (optim-one 1.0) in optim_targets; neither is used"),
    ]
    with pytest.raises(OptimError, match="target gpu cannot be used"):
        registry.target("gpu")


def test_a_cycle_between_two_plugins_names_both_and_lists_still_work(site, device):
    site.add("one", fuse("class A(Base):\n    name, before = 'one.a', ('two.b',)", "[A]"))
    site.add("two", fuse("class B(Base):\n    name, before = 'two.b', ('one.a',)", "[B]"))
    registry = load_registry(only={"acme", "one", "two"})
    with pytest.raises(OptimError, match=r"one\.a \(optim-one 1\.0\).*two\.b \(optim-two 1\.0\)"):
        registry.passes(Stage.FUSE, device)
    assert {one.plugin.name: len(one.passes) for one in survey_plugins(registry)} == {"acme": 1, "one": 1, "two": 1}


def test_passes_come_by_stage_and_in_order(site, device):
    body = "\n".join(f"class P{n}(Base):\n    name = 'many.{n}'" for n in "abc")
    source = f"{HOOKS}\n{body}\nPa.after = ('many.b',)\n"
    for hook, returned in (("optim_tune", "[Pc]"), ("optim_fuse", "[Pa, Pb]")):
        source += f"@hookimpl\ndef {hook}(target):\n    return {returned}\n"
    site.add("many", source)
    registry = load_registry(only={"many"})
    assert [offered.name for stage in Stage for offered in registry.passes(stage, device)] == [
        "many.b",
        "many.a",
        "many.c",
    ]
    assert registry.ordered(Stage.FUSE, device)[1].reasons == ("after many.b",)


def test_a_hook_is_asked_once_for_each_target(site, device):
    site.add("counts", fuse("calls = []", "calls.append(target.name) or []"))
    registry = load_registry(only={"counts"})
    for _ in range(2):
        registry.passes(Stage.FUSE, device)
    assert registry.plugin("counts").implementation.calls == ["acme-device"]


def test_an_unknown_pass_lists_the_near_ones(device):
    with pytest.raises(OptimError, match=r"did you mean acme\.shrink") as error:
        load_registry(only={"acme"}).find_pass("acme.shrnk", device)
    assert error.value.reference == "unknown-pass"


def test_a_pass_of_a_plugin_that_failed_is_not_called_unknown(site, device):
    site.add("bad", "import a_library_nobody_has")
    with pytest.raises(OptimError, match="a_library_nobody_has") as error:
        load_registry(only={"acme", "bad"}).find_pass("bad.thing", device)
    assert (error.value.reference, error.value.package) == ("plugin-failed", "optim-bad 1.0")


def test_a_pass_for_other_targets_says_for_which(site, device):
    site.add(
        "other",
        fuse("class P(Base):\n    name = 'other.p'", "[P] if target.name == 'other-device' else []")
        + "@hookimpl\ndef optim_targets():\n    return [Target('other-device', 'b', runtime='r')]",
    )
    registry = load_registry(only={"acme", "other"})
    with pytest.raises(OptimError, match="its plugin offers it for other-device"):
        registry.find_pass("other.p", device)


@pytest.mark.parametrize(
    ("kind", "name", "folder"),
    [
        ("target", "openvino", "plugins-openvino"),
        ("layout", "triton", "plugins"),
        ("metric", "top-1", "plugins"),
        ("pass", "inc.anything", "plugins-inc"),
    ],
)
def test_a_name_of_a_plugin_that_is_not_installed_says_what_to_install(device, kind, name, folder):
    registry = load_registry(only={"acme"})
    with pytest.raises(OptimError) as error:
        registry.find_pass(name, device) if kind == "pass" else registry.offer(kind, name)
    assert error.value.reference == f"unknown-{kind}"
    assert error.value.fix == f"in a clone of optim: pip install ./{folder}"


def test_the_folder_that_an_error_names_has_the_plugin():
    found = {}
    for path in Path(__file__).parents[3].glob("plugins*/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        found |= dict.fromkeys(project["entry-points"]["optim.plugins"], path.parent.name)
    assert found == _FOLDERS


def test_an_unknown_target_mentions_plugins_that_failed(site, device):
    site.add("bad", "import a_library_nobody_has")
    with pytest.raises(OptimError, match="plugins that cannot be used: bad") as error:
        load_registry(only={"acme", "bad"}).target("bad-device")
    assert error.value.reference == "unknown-target"


def test_an_unknown_target_mentions_offers_that_were_lost_without_a_name(site):
    site.add("lost", f"{HOOKS}\n@hookimpl\ndef optim_targets(): return {{'board': 1}}\n")
    with pytest.raises(OptimError, match="lost: optim_targets: returned something of type dict") as error:
        load_registry(only={"acme", "lost"}).target("board")
    assert (error.value.reference, error.value.fix) == ("unknown-target", "optim plugins doctor")


def test_backends_and_metrics_are_found_by_name(site):
    site.add(
        "acme",
        f"""{HOOKS}
class Reference(Backend):
    name = "reference"
    def open(self, model, target): raise NotImplementedError
    def limits(self): return BackendLimits(13, {{}})

class Half(Backend):
    name = "half"

@hookimpl
def optim_backends():
    return [Reference, Half]

@hookimpl
def optim_metrics():
    return [Metric("accuracy", True, lambda outputs, feeds, labels: 1.0), "accuracy"]
""",
    )
    registry = load_registry(only={"acme"})
    assert registry.backend("reference")().limits().ir_version == 13
    assert list(registry.offered("metric")) == ["accuracy"]
    assert [problem.reason for problem in registry.problems] == [
        "class Half does not implement limits, open",
        "returned something of type str, not a Metric",
    ]
    with pytest.raises(OptimError, match="there is no backend 'refrence'"):
        registry.backend("refrence")


def test_verbs_are_known_without_importing_them_and_ours_are_not_for_taking(site):
    commands = "['no.such:list_adapters', 'a.b:run', 'a b']"
    site.add("acme", f"{HOOKS}\n@hookimpl\ndef optim_commands():\n    return {commands}")
    registry = load_registry(only={"acme"})
    assert list(registry.offered("command")) == ["list-adapters"]
    assert [problem.reason for problem in registry.problems] == [
        "a.b:run: 'optim run' is a command of optim itself",
        "returned 'a b', not 'package.module:command'",
    ]


def test_a_plugin_whose_targets_cannot_be_used_here_is_unavailable(site):
    site.add(
        "acme",
        f"""{HOOKS}
def crash(): raise OSError("no bus")
@hookimpl
def optim_targets():
    absent = Target("a", "b", runtime="r", probe=lambda: "no device /dev/acme")
    return [absent, Target("c", "d", runtime="r", probe=crash)]
""",
    )
    (surveyed,) = survey_plugins(load_registry(only={"acme"}))
    assert surveyed.plugin.state == "unavailable"
    assert surveyed.plugin.reason == "a: no device /dev/acme; c: its probe raised OSError: no bus"


def test_what_a_hook_prints_stays_off_stdout(site, device, capfd):
    site.add("noisy", fuse("import os", "os.write(1, b'noise') and print('noise') or []"))
    load_registry(only={"noisy"}).passes(Stage.FUSE, device)
    out, err = capfd.readouterr()
    assert (out, err.count("noise")) == ("", 2)


NAMED_LIKE = """
    {hooks}
    @hookimpl
    def optim_targets():
        return [Target(name, "b", runtime="r") for name in ("cpu", "acme-npu", "shared")]

    @hookimpl
    def optim_metrics():
        return [Metric("top-1", True, lambda outputs, feeds, labels: 1.0)]
"""


def test_reserved_names_stay_with_their_plugin_and_a_prefix_decides_between_others(site):
    for plugin in ("acme", "other"):
        site.add(plugin, NAMED_LIKE.replace("{hooks}", HOOKS.replace("\n", "\n    ")))
    registry = load_registry(only={"acme", "other"})
    assert list(registry.targets()) == ["acme-npu"]
    assert registry.offer("target", "acme-npu").plugin.name == "acme"
    assert "top-1" not in registry.offered("metric")
    said = {(problem.plugin.name, problem.reason) for problem in registry.problems}
    assert ("acme", "target cpu is reserved for plugin ort: call it acme-cpu") in said
    assert ("other", "target acme-npu is of plugin acme: call it other-...") in said
    assert ("acme", "metric top-1 is reserved for plugin metrics: call it acme-top-1") in said
    assert any(name == "acme" and reason.startswith("target shared is also offered by") for name, reason in said)


def test_what_is_reserved_is_what_the_standard_plugins_offer():
    registry = load_registry(only=_FOLDERS.keys() - {"inc"})
    for kind, names in RESERVED_NAMES.items():
        offered = {name: offer.plugin.name for name, offer in registry.offered(kind).items()}
        assert {name: owner for name, owner in names.items() if owner != "optim"} == offered
