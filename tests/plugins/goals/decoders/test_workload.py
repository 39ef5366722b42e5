"""What a decoder is used for, and what the time of an answer is made of."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from all_goals import GOALS

import optim
from optim._engine.api.request import settings_from
from optim._engine.goals.generating import asked_workload, parse_workload, workload_text
from optim._engine.recipes.recipe import recipe_from
from optim.errors import OptimError
from optim.goal import GenerationTimes, GoalRequest
from optim_plugins.export.named import foretold_facts
from optim_plugins.goals.decoders.timing import depths_of
from optim_plugins.goals.generate import GenerateClock, GenerateGoal

TIMES = GenerationTimes(4, 5, 1.0, (4, 6, 8), (0.1, 0.2, 0.3), (40, 60, 80))


def test_a_workload_is_read_and_written_as_one_text() -> None:
    assert parse_workload("prompt=64,new=8") == GoalRequest(64, 8)
    assert parse_workload("new=8") == GoalRequest(512, 8)
    assert parse_workload(workload_text(GoalRequest(3, 4))) == GoalRequest(3, 4)
    assert depths_of(GoalRequest(4, 5)) == (4, 6, 8) and depths_of(GoalRequest(7, 1)) == (7,)


@pytest.mark.parametrize("text", ["prompt=0", "new=-1", "prompt=x", "depth=4", "prompt=9999999", "prompt"])
def test_what_is_no_workload_is_refused(text: str) -> None:
    with pytest.raises(OptimError, match="bad-workload"):
        parse_workload(text)


def test_a_workload_sets_the_goal_and_excludes_another() -> None:
    assert asked_workload("new=9", None) == {"goal": "generate", "workload": GoalRequest(512, 9)}
    with pytest.raises(OptimError, match="exclude each other"):
        asked_workload("new=9", "size")


def test_a_recipe_says_the_workload_too() -> None:
    recipe = {"goal": "generate", "generate": "prompt=32,new=4"}
    assert recipe_from(recipe, Path("recipe")).generate == "prompt=32,new=4"
    settings, _ = settings_from(Path("model.onnx"), None, recipe, {}, trust_code=False)
    assert settings.goal == "generate" and settings.workload == GoalRequest(32, 4)
    told, _ = settings_from(Path("model.onnx"), None, None, asked_workload("prompt=32,new=4", None), trust_code=False)
    assert GOALS[told.goal].clock(told.goal_request) == GenerateClock(32, 4)


def test_an_answer_is_its_first_token_and_the_others_at_their_depths() -> None:
    assert TIMES.seconds == pytest.approx(1.0 + 4 * 0.2)
    late = GenerationTimes(4, 5, 1.0, (4, 6, 8), (0.1, 0.1, 0.4), (40, 60, 80))
    assert late.seconds == pytest.approx(1.0 + 4 * (0.1 + 0.1 + 0.1 + 0.25 + 0.4) / 5)


def test_the_median_of_rounds_is_taken_figure_by_figure() -> None:
    slow = GenerationTimes(4, 5, 9.0, (4, 6, 8), (0.1, 0.9, 0.3), (40, 60, 80))
    other = GenerationTimes(4, 5, 1.5, (4, 6, 8), (0.4, 0.1, 0.3), (40, 60, 80))
    found = GenerationTimes.median([TIMES, slow, other])
    assert found.first_s == 1.5 and found.token_s == (0.1, 0.2, 0.3)


def test_an_answer_beyond_the_context_is_refused() -> None:
    facts = {"kind": "decoder", "context": 640}
    GenerateGoal().require(GoalRequest(512, 128), facts, None)
    GenerateGoal().require(GoalRequest(512, 129), {"kind": "decoder"}, None)
    with pytest.raises(OptimError, match="bad-workload") as refused:
        GenerateGoal().require(GoalRequest(512, 129), facts, None)
    assert "641 tokens, and the model was made for 640" in refused.value.cause
    assert refused.value.fix == "--generate prompt=480,new=160"


@pytest.mark.parametrize("config", [{"n_positions": 64}, {"text_config": {"max_position_embeddings": 64}}])
def test_an_answer_beyond_the_context_of_a_source_is_refused_before_it_is_exported(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"no weights, so that an export would fail")
    for ask in (partial(optim.run, tmp_path, tmp_path / "out"), partial(optim.bench, tmp_path)):
        with pytest.raises(OptimError, match="the model was made for 64") as refused:
            ask(generate="prompt=60,new=5")
        assert refused.value.reference == "bad-workload"
    assert foretold_facts(tmp_path / "nowhere") == foretold_facts(tmp_path / "model.safetensors") == {}
