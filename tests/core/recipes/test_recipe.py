from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from optim._engine.recipes.lock import load_recipe_or_lock
from optim._engine.recipes.recipe import Recipe
from optim.errors import ExitStatus, OptimError


def refused(tmp_path: Path, text: str) -> OptimError:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(OptimError) as caught:
        load_recipe_or_lock(path)
    assert caught.value.status is ExitStatus.USAGE
    return caught.value


def test_the_documented_recipe_is_one(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("\n".join(re.findall(r"^    .*|^$", inspect.getdoc(Recipe) or "", re.MULTILINE)))
    recipe = load_recipe_or_lock(path)
    assert (recipe.search_seconds, recipe.budget.max_loss, recipe.budget.max_size) == (120, "1%", "50MB")
    assert [(named.name, named.options) for named in recipe.named()] == [
        ("ort.quantize-dynamic", {"per_channel": True})
    ]


def test_an_empty_recipe_leaves_everything_to_the_run(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("")
    assert load_recipe_or_lock(path) == Recipe()


def test_a_file_of_feeds_is_looked_for_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "feeds.npz").touch()
    path = tmp_path / "recipe.toml"
    path.write_text('data = "feeds.npz"')
    assert load_recipe_or_lock(path).data == str(tmp_path / "feeds.npz")
    path.write_text('data = "package.module:feeds"')
    assert load_recipe_or_lock(path).data == "package.module:feeds"


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("gaol = 'size'", "gaol", "goal"),
        ("[budget]\nmax_drfit = 0.1", "max_drfit", "max_drift"),
        ("[[passes]]\nname = 'a.b'\noption = {}", "option", "options"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(tmp_path: Path, text: str, key: str, near: str) -> None:
    error = refused(tmp_path, text)
    assert error.reference == "unknown-recipe-key"
    assert f"'{key}'" in error.what
    assert near in error.cause


def test_an_unknown_key_in_a_table_names_the_table(tmp_path: Path) -> None:
    assert refused(tmp_path, "[[passes]]\nname = 'a.b'\n[[passes]]\nname = 'a.c'\nx = 1").what.endswith("in passes[1]")


def test_bad_toml_names_the_line_and_shows_it(tmp_path: Path) -> None:
    error = refused(tmp_path, 'goal = "latency"\ntarget = cpu\n')
    assert error.reference == "bad-toml"
    assert "line 2" in error.what
    assert "target = cpu" in error.cause


def test_a_number_of_thousands_of_digits_is_an_error_of_the_recipe(tmp_path: Path) -> None:
    error = refused(tmp_path, f"seed = {'9' * 5000}\n")
    assert error.reference == "bad-toml" and "digits" in error.cause
    assert len(str(error)) < 1000


def test_toml_that_ends_too_early_is_an_error_too(tmp_path: Path) -> None:
    assert refused(tmp_path, 'stages = ["fuse",').reference == "bad-toml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed = -1", "seed"),
        ("stages = ['fuze']", "stages[0]"),
        ("[budget]\nmax_drift = 0", "budget.max_drift"),
        ("[budget]\nmax_drift = 0.1\nlossless = true", "exclude each other"),
        ("[budget]\nmax_mismatch = 0.1\nlossless = true", "exclude each other"),
        ("[[passes]]\nname = 'a.b'\n[[passes]]\nname = 'a.b'", "twice"),
        ("without = ['a.b']\n[[passes]]\nname = 'a.b'", "both"),
        ("[[passes]]\noptions = {}", "passes[0].name"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_place(tmp_path: Path, text: str, said: str) -> None:
    error = refused(tmp_path, text)
    assert error.reference == "bad-recipe"
    assert said in error.cause


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_missing_or_binary_file_is_one_clear_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "recipe.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptimError) as caught:
        load_recipe_or_lock(path)
    assert caught.value.reference == "recipe-not-readable"
    assert str(path) in caught.value.what


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no file without an end here")
def test_a_recipe_without_an_end_is_refused():
    with pytest.raises(OptimError, match="recipe-not-readable") as caught:
        load_recipe_or_lock(Path("/dev/zero"))
    assert "more than" in caught.value.cause
