"""A recipe from a stranger names nothing that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optim._engine.cli.main import main
from optim._engine.cli.request import settings_of
from optim.errors import ExitStatus
from optim_testing import models

CODE = "from pathlib import Path\nPath('planted').touch()\ndef f(*_, **__):\n    return 1.0\n"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "planted_code.py").write_text(CODE)
    return models.mlp(tmp_path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('data = "planted_code:f"', "planted_code:f"),
        ('data = "feeds.npz"\nmetric = "planted_code:f"', "planted_code:f"),
        ('[[passes]]\nname = "prepost.append"\noptions = {post = [{"planted_code:Step" = {}}]}', "planted_code:Step"),
        (
            '[[passes]]\nname = "prepost.append"\n'
            'options = {post = [{Softmax = {a = {type = "planted_code.Param", params = {}}}}]}',
            "planted_code.Param",
        ),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--dry-run"]], ids=["run", "dry-run"])
def test_a_recipe_that_names_code_is_refused(model, capsys, text, named, arguments):
    Path("recipe.toml").write_text(text)
    status = main(["run", str(model), "-o", "out", "--recipe", "recipe.toml", *arguments])
    told = capsys.readouterr().err
    assert status == ExitStatus.USAGE, told
    assert "untrusted-code" in told
    assert named in told
    assert "--trust-code" in told
    assert not Path("planted").exists()
    assert not Path("out").exists()


def test_what_the_user_says_goes_before_the_recipe_and_may_be_code(model):
    Path("recipe.toml").write_text('data = "planted_code:f"\nmetric = "planted_code:f"')
    given = {"data": "mine:feeds", "metric": "mine:metric"}
    settings, _ = settings_of(model, Path("recipe.toml"), given)
    assert settings.data == "mine:feeds"
    trusted, _ = settings_of(model, Path("recipe.toml"), {"trust_code": True})
    assert trusted.data == "planted_code:f"


def test_a_recipe_without_code_needs_no_trust(model, capsys):
    Path("recipe.toml").write_text('goal = "size"\n[[passes]]\nname = "ort.quantize-weights"\noptions = {bits = 8}')
    assert main(["run", str(model), "--recipe", "recipe.toml", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("target", ["auto", "cpu,qnn-offline", "cpu,openvino"])
def test_what_a_recipe_names_is_looked_at_where_several_targets_compete(model, capsys, target):
    Path("recipe.toml").write_text('[[passes]]\nname = "ort.quantize-dynamic"\noptions = {per_channel = true}')
    status = main(["run", str(model), "-o", "out", "--recipe", "recipe.toml", "--target", target, "--dry-run"])
    told = capsys.readouterr().err
    assert "unknown-target" not in told
    assert status == (ExitStatus.USAGE if "offline" in target else ExitStatus.DELIVERED), told
    Path("recipe.toml").write_text('data = "planted_code:f"')
    assert main(["run", str(model), "-o", "out", "--recipe", "recipe.toml", "--target", target]) == ExitStatus.USAGE
