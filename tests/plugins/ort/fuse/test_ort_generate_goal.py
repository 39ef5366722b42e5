"""Goal generate on real steps: a lane runs a prompt and single tokens, with the past as the graph takes it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from jobs_here import done_here
from ort_models import DATA, apply, export

import optim
from optim import OptimError, TensorInfo
from optim._engine.api.request import settings_from
from optim._engine.cli.dry_run import print_plan
from optim._engine.plugins.registry import load_registry
from optim._engine.search.explore.beam import Beam
from optim._engine.search.plan import make_plan
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.goal import GoalRequest
from optim.onnx import describe_model
from optim_plugins.goals.decoders import genai
from optim_plugins.goals.decoders.generator import Generator
from optim_plugins.goals.decoders.known import generates_alone
from optim_plugins.ort.fuse.past.share_past import SharePast


@pytest.mark.slow
def test_bench_times_whole_answers(tmp_path: Path) -> None:
    shared = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model
    with done_here():
        found = optim.bench([DATA / "llama.dynamo.onnx", shared.path], generate="prompt=5,new=3", seconds=0.2)
    first, second = found.models
    assert first.generation is not None and second.generation is not None and second.answer_ratio is not None
    assert [depth.tokens for depth in second.generation.depths] == [5, 6, 7]
    assert second.generation.depths[-1].past_bytes * 15 == first.generation.depths[-1].past_bytes * 8
    assert first.generation.answer_ms > first.generation.first_ms > 0
    assert found.columns[-3:] == ("past MB at 7", "answer ms", "answer ratio")
    assert len(found.rows()[0]) == len(found.columns) == len(set(found.columns))


def test_a_graph_without_a_past_has_no_answers(tmp_path: Path) -> None:
    with done_here(), pytest.raises(OptimError, match="not-a-decoder"):
        optim.bench(DATA / "bert.dynamo.onnx", generate="prompt=5,new=3", seconds=0.1)
    with done_here(), pytest.raises(OptimError, match="not-a-decoder"):
        optim.run(DATA / "bert.dynamo.onnx", tmp_path / "out", goal="generate", search_seconds=0)


@pytest.mark.slow
def test_a_folder_of_onnxruntime_genai_answers_beside_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, folder = DATA / "llama.dynamo.onnx", tmp_path / "genai"
    folder.mkdir()
    (folder / "genai_config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", None)
    with pytest.raises(OptimError, match="runtime-missing"):
        optim.bench([model, folder], generate="prompt=5,new=3")
    for models, generate in (([model, folder], None), ([folder, model], "prompt=5,new=3")):
        with pytest.raises(OptimError, match="conflicting-request"):
            optim.bench(models, generate=generate)
    for name in ("config.json", "model.onnx"):  # as on the hub: then it looks like a folder of optimum too
        (folder / name).write_text("{}")
    monkeypatch.setattr(genai, "require_installed", lambda folder: None)
    with done_here():
        found = optim.bench([model, folder], generate="prompt=5,new=3", seconds=0.1)
    assert [one.model for one in found.models] == [str(model), str(folder)]
    assert "onnxruntime_genai" in found.models[1].error and found.models[1].latency_ms is None
    assert found.models[0].generation is not None


def test_the_goal_of_a_decoder_is_the_answer_where_nobody_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    said: list[str] = []
    few = {"stages": ["post-process"], "search_seconds": 60, "say": said.append}  # nothing to search: ends at once
    with done_here():
        found = optim.run(DATA / "llama.dynamo.onnx", tmp_path / "out", **few)
    assert found.goal == "generate" and found.original.generation is not None
    assert found.original.generation.prompt == 512
    (told,) = (line for line in said if "--goal latency" in line)
    assert "prompt=512,new=128" in told
    said.clear()
    with done_here():  # it has 64 positions
        short = optim.run(DATA / "gpt2.dynamo.onnx", tmp_path / "short", **few)
    assert short.goal == "latency" and "prompt=512,new=128 fail" in " ".join(said)


def test_a_goal_that_is_named_stays(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('goal = "latency"')
    asked = {"said": {"goal": "latency"}, "recipe": {}, "nothing": {}}
    for name, given in asked.items():
        settings, _ = settings_from(
            DATA / "llama.dynamo.onnx", None, recipe if name == "recipe" else None, given, trust_code=False
        )
        assert (settings.goal, settings.goal_is_said) == ("latency", name != "nothing")


def test_an_answer_that_nobody_asked_for_fits_into_the_context() -> None:
    usual, decoder = GoalRequest(), describe_model(DATA / "llama.dynamo.onnx", digest="llama")
    answers = partial(Generator().answers, decoder)
    assert answers(usual, {"context": 64}) == GoalRequest(48, 16)
    assert answers(usual, {"context": 640}) == answers(usual, {}) == usual


def test_what_takes_more_than_tokens_and_its_past_is_no_decoder_by_itself() -> None:
    decoder, other = (describe_model(DATA / f"{name}.dynamo.onnx", digest=name) for name in ("llama", "bert"))
    assert generates_alone(decoder) and not generates_alone(other)
    assert not generates_alone(replace(decoder, inputs=(*decoder.inputs, TensorInfo("pixels", "float32", (1, 3)))))


def test_a_dry_run_shows_the_plan_of_the_goal_that_a_run_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    found = {}
    for name in (DATA / "llama.dynamo.onnx", DATA / "bert.dynamo.onnx", tmp_path / "bad.onnx"):
        print_plan(RunSettings(name, goal_is_said=False), as_json=True)
        found[name.stem] = json.loads(capsys.readouterr().out)
    print_plan(RunSettings(DATA / "llama.dynamo.onnx"), as_json=True)
    found["named"] = json.loads(capsys.readouterr().out)
    goals = {name: one["goal"] for name, one in found.items()}
    assert goals == {"llama.dynamo": "generate", "bert.dynamo": "latency", "bad": "latency", "named": "latency"}
    passes = {name: {planned["pass"] for planned in one["passes"]} for name, one in found.items()}
    assert "ort.share-past" in passes["llama.dynamo"] and "ort.share-past" not in passes["named"]


def test_where_answers_are_the_goal_the_likeliest_chain_comes_first(tmp_path: Path) -> None:
    """A past in one buffer and weights in integers, together, before any stage has the time."""
    registry = load_registry(only={"goals", "ort"})
    target = registry.target("cpu")
    wanted = {"ort.clean", "ort.share-past", "ort.quantize-weights", "ort.fuse-transformer", "ort.quantize-past"}
    settings = RunSettings(
        DATA / "llama.dynamo.onnx",
        goal="generate",
        workload=GoalRequest(5, 3),
        max_drift=1.0,
        without=tuple(sorted({one.name for one in registry.offers(target)} - wanted)),
        search_seconds=300.0,
        most_samples=2,
    )
    with done_here():
        bench = Workbench(settings, registry, Store(tmp_path / "cache"), None, lambda text: None)
        bench.ingest()
        bench.prepare()
        plan = make_plan(settings, registry, bench.target)
        beam = Beam(bench, plan)
        beam.look()
    found = [[step.pass_name for step in one.candidate.steps] for one in beam._looked.values()]
    assert found == [["ort.share-past"], ["ort.share-past", "ort.quantize-weights"]]
    tried = {attempt.step.pass_name for attempt in beam.board.attempts if attempt.seconds > 0}
    assert tried == {"ort.share-past", "ort.quantize-weights"}
