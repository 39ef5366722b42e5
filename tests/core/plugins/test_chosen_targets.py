"""What stands behind ``--target``: which targets compete, and which never do."""

from __future__ import annotations

import json

import pytest
from installed_plugin import installed
from timed_models import write_network

import optim
from optim._engine.cli.main import main
from optim._engine.plugins.chosen_targets import choose_targets, target_names
from optim._engine.plugins.registry import load_registry
from optim.cli_kit.names import TARGET_NAMES
from optim.errors import ExitStatus, OptimError


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with installed(tmp_path_factory.mktemp("targets"), "rivals_plugin"):
        yield load_registry()


def names(chosen):
    return [target.name for target in chosen.targets]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cpu", ["cpu"]),
        ("cpu,swift", ["cpu", "swift"]),
        ("cpu, swift,cpu", ["cpu", "swift"]),
        ("qnn:soc=sm8650,fallback=cpu", ["qnn:soc=sm8650,fallback=cpu"]),
        ("cpu,openvino:device=GPU,streams=2,swift", ["cpu", "openvino:device=GPU,streams=2", "swift"]),
        ("a:x=1,b:y=2", ["a:x=1", "b:y=2"]),
    ],
)
def test_commas_inside_the_settings_of_a_target_are_its_own(text, found):
    assert target_names(text) == found


def test_auto_takes_what_is_timed_here_and_no_simulator_browser_or_device_elsewhere(registry):
    chosen = choose_targets(registry, "auto")
    assert {"cpu", "swift", "sluggish"} <= set(names(chosen))
    assert not {"elsewhere", "untimed", "qnn-offline", "cuda-offline", "web", "torch-eager"} & set(names(chosen))
    assert "away" in chosen.absent
    assert chosen.baseline.name == "cpu"
    assert chosen.compete


def test_the_baseline_is_the_cpu_also_where_it_does_not_compete(registry):
    chosen = choose_targets(registry, "swift,sluggish")
    assert (chosen.baseline.name, names(chosen)) == ("cpu", ["swift", "sluggish"])
    alone = choose_targets(registry, "swift")
    assert (alone.baseline.name, alone.compete) == ("swift", False)


def test_the_baseline_has_the_threads_that_the_cpu_was_named_with(registry):
    chosen = choose_targets(registry, "swift,cpu:threads=1")
    assert (chosen.baseline.name, chosen.baseline.threads) == ("cpu:threads=1", 1)
    assert names(chosen) == ["swift", "cpu:threads=1"] and chosen.targets[1] is chosen.baseline


def test_auto_where_only_the_cpu_is_here_is_the_cpu_and_says_so(registry, monkeypatch):
    there = registry.targets()
    monkeypatch.setattr(registry, "targets", lambda: {name: there[name] for name in ("cpu", "away", "untimed")})
    chosen = choose_targets(registry, "auto")
    assert (names(chosen), chosen.compete) == (["cpu"], False)
    assert "auto is cpu" in chosen.note
    assert "away: there is no such device" in chosen.note
    assert choose_targets(registry, "cpu").note == ""
    assert "what is left of --target is cpu" in choose_targets(registry, "cpu,away").note


@pytest.mark.parametrize(
    ("text", "reference", "said"),
    [
        ("auto,cpu", "conflicting-request", "--target cpu"),
        ("cpu,untimed", "not-timed", "--target untimed"),
        ("cpu,swfit", "unknown-target", "swift"),
        ("away,away:x=1", "bad-target-setting", "away has no settings"),
        ("cpu,torch-eager", "target-takes-no-onnx", "--beside"),
    ],
)
def test_what_cannot_compete_is_one_error(registry, text, reference, said):
    with pytest.raises(OptimError) as raised:
        choose_targets(registry, text)
    assert raised.value.reference == reference
    assert said in str(raised.value)


def test_where_none_is_here_each_reason_is_named(registry, monkeypatch):
    monkeypatch.setattr(registry, "unavailable", lambda target: f"no {target.name}")
    with pytest.raises(OptimError, match="swift: no swift; sluggish: no sluggish"):
        choose_targets(registry, "swift,sluggish")


def test_a_dry_run_has_the_passes_of_each_target(registry, capsys, tmp_path):
    assert main(["run", "model.onnx", "--target", "cpu,swift", "--target", "away", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["baseline"] == "cpu"
    assert "ort.clean" in {item["pass"] for item in found["targets"]["cpu"]["passes"]}
    assert found["targets"]["away"] == {"passes": [], "left_out": [], "unavailable": "there is no such device"}
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('target = ["cpu", "swift"]\n')
    assert main(["run", "model.onnx", "--recipe", str(recipe), "--dry-run", "--json"]) == ExitStatus.DELIVERED
    assert set(json.loads(capsys.readouterr().out)["targets"]) == {"cpu", "swift"}


def test_python_takes_a_list_and_the_shell_completes_the_last_name(registry, tmp_path):
    model = write_network(tmp_path / "model.onnx")
    with pytest.raises(OptimError, match="no target 'swfit'"):
        optim.run(model, tmp_path / "out", target=["cpu", "swfit"])
    assert [item.value for item in TARGET_NAMES.shell_complete(None, None, "cpu,sw")] == ["cpu,swift"]
    assert "auto" in {item.value for item in TARGET_NAMES.shell_complete(None, None, "")}
    assert TARGET_NAMES.shell_complete(None, None, "swift,swif") == []
