"""Goal generate on real steps: a lane runs a prompt and single tokens, with the past as the graph takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs_here import done_here
from ort_models import DATA, apply, export

import optim
from optim import OptimError
from optim_plugins.ort.fuse.past.share_past import SharePast


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
