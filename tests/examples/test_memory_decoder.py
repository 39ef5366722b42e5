"""The custom decoder of examples/memory_decoder: exported, optimized and generating, as its docstring says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import optim
from optim._engine.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here", "quick_exports")]

EXAMPLE = Path(__file__).parents[2] / "examples" / "memory_decoder"
OPTIONS = ["--state", "mems", "--dynamic", "input_ids=batch,sequence", "--dynamic", "mems=batch,past,"]


def greedy(start: list[int], count: int) -> list[int]:
    """By torch, without any memory: the whole text again for each token."""
    import torch

    sys.path.insert(0, str(EXAMPLE))
    try:
        from memory_decoder import factory
    finally:
        sys.path.remove(str(EXAMPLE))
    model, ids = factory()[0].eval(), torch.tensor([start])
    with torch.inference_mode():
        for _ in range(count):
            logits, _ = model(ids, [torch.zeros(1, 0, 32)] * 2)
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
    tokens: list[int] = ids[0, len(start) :].tolist()
    return tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("memory") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(EXAMPLE)
        words = [*OPTIONS, "-o", str(output), "--lossless", "--search-seconds", "1"]
        assert main(["run", "memory_decoder:factory", *words]) == 0
    return output


def test_the_run_exports_and_verifies_the_decoder_first(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    export = report["export"]
    assert [step["name"] for step in export["steps"] if step["status"] == "kept"] == [
        "torch.load-factory",
        "torch.dynamo",
    ]
    assert "no memory, then three steps" in export["trials"] and export["drift"]["relative_error"] < 1e-5
    assert "Export" in (folder / "report.html").read_text()


def test_it_generates_what_torch_does_without_a_memory(folder: Path) -> None:
    decoder = optim.load(folder)
    assert isinstance(decoder, optim.Decoder)
    expected = greedy([43, 2, 3], 12)
    assert len(set(expected)) > 3  # not collapsed to one token
    assert decoder.generate([[43, 2, 3]], max_new_tokens=12)[0].tolist() == expected
    both = decoder.generate([[43, 2, 3], [5, 6, 7]], max_new_tokens=12)
    assert both[0].tolist() == expected and np.unique(both[1]).size > 1


def test_memories_keep_their_place_in_the_graph(folder: Path) -> None:
    exported = json.loads((folder / "export.json").read_text())
    assert exported["components"]["model"]["state"] == {"present.mems.0": "mems.0", "present.mems.1": "mems.1"}
