from __future__ import annotations

import re
from pathlib import Path

import pytest

from optim.errors import ExitStatus, OptimError
from optim.passes import Stage
from optim.recipes.load import apply_recipe, load_recipe
from optim.recipes.lock import Lock
from optim.recipes.recipe import Recipe
from optim.search.settings import Named, RunSettings

DOCS = Path(__file__).parents[2] / "docs" / "recipes.md"
ASKED = RunSettings(Path("model.onnx"), search_seconds=7.0, max_drift=0.3)


def samples() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def recipe(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(tmp_path: Path, text: str) -> OptimError:
    with pytest.raises(OptimError) as caught:
        load_recipe(recipe(tmp_path, text))
    assert caught.value.status is ExitStatus.USAGE
    return caught.value


def test_the_documented_recipe_says_what_the_page_says(tmp_path):
    (tmp_path / "sentences.npz").touch()
    settings, digest = apply_recipe(ASKED, recipe(tmp_path, samples()[0]))
    assert digest is None
    assert settings == RunSettings(
        Path("model.onnx"), target="cpu", data=str(tmp_path / "sentences.npz"), goal="latency", max_drift=0.17,
        named=(Named("ort.quantize-dynamic", {"per_channel": True}),), without=frozenset({"ort.fuse-transformer"}),
        stages=(Stage.FUSE, Stage.QUANTIZE, Stage.TUNE), search_seconds=60.0, seed=0,
    )  # fmt: skip


def test_the_documented_recipe_shows_every_key_but_the_one_that_excludes_another():
    for name in Recipe.model_fields:
        assert re.search(rf"^(# )?\[*{name}\b", samples()[0], re.MULTILINE), name


def test_the_documented_lock_is_what_a_run_writes(tmp_path):
    lock = load_recipe(recipe(tmp_path, samples()[1]))
    assert isinstance(lock, Lock)
    assert lock.as_toml() == samples()[1]


def test_an_empty_recipe_changes_nothing(tmp_path):
    assert apply_recipe(ASKED, recipe(tmp_path, "")) == (ASKED, None)


def test_a_pass_without_options_is_left_to_the_pass(tmp_path):
    settings, _ = apply_recipe(ASKED, recipe(tmp_path, '[[passes]]\nname = "ort.clean"\n'))
    assert settings.named == (Named("ort.clean", None),)


def test_lossless_is_a_budget_of_its_own(tmp_path):
    assert apply_recipe(ASKED, recipe(tmp_path, "lossless = true"))[0].lossless
    error = refusal(tmp_path, "lossless = true\nmax_drift = 0.1")
    assert error.reference == "bad-recipe"
    assert "exclude each other" in error.cause


@pytest.mark.parametrize(
    ("text", "line", "near"),
    [
        ("seed = 1\n\nmax_drfit = 0.1\n", "line 3", "max_drift"),
        ('[[passes]]\nname = "ort.clean"\noption = {}\n', "line 3", "options"),
        ("[[pases]]\nname = 'x'\n", "line 1", "passes"),
        ("[budgett]\nmax_drift = 1\n", "line 1", "known"),
    ],
)
def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_name(tmp_path, text, line, near):
    error = refusal(tmp_path, text)
    assert error.reference == "unknown-recipe-key"
    assert line in error.cause
    assert near in error.cause
    assert "recipe.toml" in error.fix


def test_toml_that_cannot_be_read_names_the_line(tmp_path):
    error = refusal(tmp_path, "seed = 1\ngoal = latency\n")
    assert error.reference == "bad-recipe"
    assert "line 2" in error.cause


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('seed = 1\ngoal = "speed"', ["line 2", "goal", "latency"]),
        ('stages = ["fuse", "train"]', ["stages 2", "quantize"]),
        ("max_drift = -1", ["max_drift", "greater than 0"]),
        ("max_drift = inf", ["max_drift", "finite"]),
        ('[[passes]]\noptions = {}\n', ["passes 1 name", "required"]),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_would(tmp_path, text, words):
    error = refusal(tmp_path, text)
    assert error.reference == "bad-recipe"
    for word in words:
        assert word in error.cause


def test_a_recipe_that_is_not_there_is_one_clear_error(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(OptimError, match="no-recipe"):
            load_recipe(path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptimError, match="bad-recipe"):
        load_recipe(tmp_path / "binary.toml")


def test_a_function_that_makes_feeds_is_left_as_it_is(tmp_path):
    settings, _ = apply_recipe(ASKED, recipe(tmp_path, 'data = "my.package:feeds"'))
    assert settings.data == "my.package:feeds"
