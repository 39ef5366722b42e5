from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import sample_outcome as sample

from optim.errors import OptimError
from optim.recipes.load import apply_recipe, load_recipe
from optim.recipes.lock import Lock, lock_of
from optim.runs.outcome import Outcome
from optim.search.settings import RunSettings

OPTIONS = {
    "per_channel": True, "keep": ["/encoder/0/MatMul", 'odd "name"'], "threads": None, "share": 0.1 + 0.2, "count": 3,
    "nested": {"a": [1.5, "b"], "b": {}}, "empty": [], "text": "",
}  # fmt: skip


def with_options(options: dict[str, object]) -> Outcome:
    outcome = sample.improved()
    node = outcome.result.node
    steps = (replace(node.steps[0], options=options), *node.steps[1:])
    outcome.result = replace(outcome.result, node=replace(node, steps=steps))
    return outcome


def written(tmp_path: Path, outcome: Outcome) -> Path:
    path = tmp_path / "recipe.lock.toml"
    path.write_text(lock_of(outcome).as_toml(), encoding="utf-8")
    return path


def test_a_lock_reads_back_as_it_was_written(tmp_path):
    outcome = with_options(OPTIONS)
    found = load_recipe(written(tmp_path, outcome))
    assert isinstance(found, Lock)
    assert found == lock_of(outcome)
    assert found.chain[0].all_options == OPTIONS


def test_a_lock_asks_for_the_same_chain_with_all_options_and_for_the_same_digest(tmp_path):
    path = written(tmp_path, with_options(OPTIONS))
    settings, digest = apply_recipe(RunSettings(Path("copy.onnx"), fresh=True), path)
    assert digest == "b" * 64
    assert [(named.name, dict(named.options)) for named in settings.chain] == [
        ("ort.quantize-dynamic", OPTIONS), ("ort.tune-session", {"level": "basic"}),
    ]  # fmt: skip
    assert (settings.source, settings.target, settings.max_drift) == (Path("copy.onnx"), "cpu", 0.17)
    assert settings.fresh


def test_the_lock_of_an_unchanged_run_is_an_empty_chain(tmp_path):
    settings, digest = apply_recipe(RunSettings(Path("copy.onnx")), written(tmp_path, sample.unchanged()))
    assert settings.chain == ()
    assert digest == "a" * 64


def test_the_lock_of_a_lossless_run_is_lossless(tmp_path):
    outcome = sample.improved()
    outcome.settings = replace(outcome.settings, lossless=True)
    settings, _ = apply_recipe(RunSettings(Path("copy.onnx")), written(tmp_path, outcome))
    assert settings.lossless
    assert settings.max_drift == RunSettings(Path("copy.onnx")).max_drift


def test_a_lock_names_the_package_and_version_of_every_pass(tmp_path):
    chain = tomllib.loads(written(tmp_path, sample.improved()).read_text())["chain"]
    assert [(step["package"], step["plugin"]) for step in chain] == [("optim-plugins", "ort")] * 2
    assert all(step["version"] for step in chain)


def test_feeds_are_found_again_from_another_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "feeds.npz").touch()
    outcome = sample.improved()
    found = str(tmp_path / "feeds.npz")
    for given, kept in (("feeds.npz", found), ("my.module:feeds", "my.module:feeds"), (None, None)):
        outcome.settings = replace(outcome.settings, data=given)
        assert lock_of(outcome).feeds.data == kept


def test_a_lock_of_a_newer_optim_is_refused(tmp_path):
    path = written(tmp_path, sample.improved())
    path.write_text(path.read_text().replace("version = 1\n", "version = 2\n", 1))
    with pytest.raises(OptimError, match="lock-version"):
        load_recipe(path)


def test_a_lock_that_somebody_changed_names_what_is_wrong(tmp_path):
    path = written(tmp_path, sample.improved())
    path.write_text(path.read_text().replace("model_digest", "model_digset"))
    with pytest.raises(OptimError, match="did you mean model_digest") as caught:
        load_recipe(path)
    assert caught.value.reference == "unknown-recipe-key"


def test_a_run_that_delivers_nothing_has_no_lock():
    with pytest.raises(ValueError, match="no lock"):
        lock_of(sample.budget_missed())
