"""What recipes with a table [matrix] ask for, run by run."""

from __future__ import annotations

from pathlib import Path

import pytest

from optim_fleet.batch.matrix import read_batch


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def models(tmp_path: Path) -> Path:
    for name in ("a.onnx", "b.onnx"):
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def test_every_source_with_every_target_and_every_budget(models: Path) -> None:
    file = written(
        models, "all.toml", '[matrix]\nsource = ["*.onnx"]\ntarget = ["cpu", "web"]\nmax_drift = [0.02, 0.05]\n'
    )
    entries = read_batch([file])
    assert [entry.name for entry in entries[:4]] == ["a-cpu-0.02", "a-cpu-0.05", "a-web-0.02", "a-web-0.05"]
    assert len(entries) == 8
    recipe = entries[2].recipe
    assert recipe is not None and (recipe.target, recipe.budget.max_drift) == ("web", 0.02)
    assert entries[2].source == str(models / "a.onnx")


def test_a_budget_of_a_list_may_be_lossless(models: Path) -> None:
    file = written(models, "b.toml", '[matrix]\nsource = ["a.onnx"]\nmax_drift = ["lossless", 0.02]\n')
    entries = read_batch([file])
    assert [entry.name for entry in entries] == ["a-lossless", "a-0.02"]
    budgets = [entry.recipe.budget for entry in entries if entry.recipe]
    assert [(one.lossless, one.max_drift) for one in budgets] == [(True, None), (False, 0.02)]


@pytest.mark.parametrize("budget", ["0.0", "-1", "inf", "nan", "true", '"none"', "[0.1]"])
def test_what_is_no_budget_is_refused_with_what_may_be_one(models: Path, budget: str) -> None:
    (entry,) = read_batch([written(models, "w.toml", f'[matrix]\nsource = ["a.onnx"]\nmax_drift = [{budget}]\n')])
    assert entry.error is not None and 'a positive number or "lossless"' in entry.error.cause


def test_the_rest_of_the_recipe_holds_for_every_run(models: Path) -> None:
    (models / "feeds.npz").write_bytes(b"x")
    file = written(models, "r.toml", 'data = "feeds.npz"\nseed = 7\n[matrix]\nsource = ["a.onnx", "b.onnx"]\n')
    recipes = [entry.recipe for entry in read_batch([file])]
    assert [(r.data, r.seed) for r in recipes if r] == [(str(models / "feeds.npz"), 7)] * 2


def test_two_models_of_one_name_have_folders_of_their_own(models: Path) -> None:
    (models / "other").mkdir()
    (models / "other" / "a.onnx").write_bytes(b"x")
    first = written(models, "first.toml", '[matrix]\nsource = ["a.onnx"]\n')
    second = written(models, "second.toml", '[matrix]\nsource = ["other/a.onnx", "other/a.onnx"]\n')
    assert [e.name for e in read_batch([first, second])] == ["first-a", "second-a", "second-a-2"]


def test_a_wrong_recipe_costs_none_of_the_others(models: Path) -> None:
    wrong = written(models, "wrong.toml", 'taget = "cpu"\n[matrix]\nsource = ["a.onnx"]\n')
    without = written(models, "without.toml", "seed = 1\n")
    nothing = written(models, "nothing.toml", '[matrix]\nsource = ["*.pt", "a.onnx"]\n')
    entries = read_batch([wrong, without, nothing])
    assert [entry.error.reference if entry.error else "" for entry in entries] == [
        "unknown-recipe-key",
        "bad-recipe",
        "model-missing",
        "",
    ]


BUDGETS = ["lossless = true", "max_drift = 0.1", "max_loss = 0.1", "max_mismatch = 0.1"]


@pytest.mark.parametrize("key", ['target = "cpu"', *(f"[budget]\n{budget}" for budget in BUDGETS)])
def test_nothing_is_said_twice(models: Path, key: str) -> None:
    matrix = '[matrix]\nsource = ["a.onnx"]\ntarget = ["cpu"]\nmax_drift = ["lossless", 0.1]\n'
    text = f"{key}\n{matrix}" if "[" not in key else f"{matrix}{key}\n"
    (entry,) = read_batch([written(models, "twice.toml", text)])
    assert entry.error is not None and "exclude" in entry.error.cause


def test_targets_with_settings_make_folders_of_any_system(models: Path) -> None:
    file = written(models, "t.toml", '[matrix]\nsource = ["a.onnx"]\ntarget = ["auto", "cpu,qnn:soc=sm8650"]\n')
    entries = read_batch([file])
    assert [(entry.name, entry.needs) for entry in entries] == [
        ("a-auto", frozenset()),
        ("a-cpu-qnn-soc-sm8650", {"cpu", "qnn"}),
    ]


def test_a_factory_in_a_recipe_is_code_that_nobody_said_may_run(models: Path) -> None:
    file = written(models, "f.toml", '[matrix]\nsource = ["somebody.module:factory", "a.onnx"]\n')
    refused, sound = read_batch([file])
    assert refused.error is not None and refused.error.reference == "untrusted-code"
    assert sound.error is None
    assert [entry.error for entry in read_batch([file], trust_code=True)] == [None, None]
