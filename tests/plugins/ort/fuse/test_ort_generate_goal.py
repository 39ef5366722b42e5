"""Goal generate on real steps: a lane runs a prompt and single tokens, with the past as the graph takes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jobs_here import done_here
from ort_models import DATA, apply, export

import optim
from optim import OptimError
from optim._engine.generation.decoder import remark_on_goal
from optim._engine.runs.compare import programs
from optim.onnx.files import describe
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
    monkeypatch.setattr(programs, "require_installed", lambda folder: None)
    with done_here():
        found = optim.bench([model, folder], generate="prompt=5,new=3", seconds=0.1)
    assert [one.model for one in found.models] == [str(model), str(folder)]
    assert "onnxruntime_genai" in found.models[1].error and found.models[1].latency_ms is None
    assert found.models[0].generation is not None


def test_a_run_of_a_decoder_tells_of_the_goal_for_answers() -> None:
    decoder, other = (describe(DATA / f"{name}.dynamo.onnx", digest=name) for name in ("llama", "bert"))
    assert "--goal generate" in remark_on_goal(decoder, "latency")
    assert remark_on_goal(decoder, "generate") == remark_on_goal(other, "latency") == ""
    with pytest.raises(OptimError, match="not-a-decoder"):
        remark_on_goal(other, "generate")
