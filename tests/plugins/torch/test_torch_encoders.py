"""Models that read all at once: text, images and sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exporting import Exported, export
from tiny_models import build, save

from optim import OptimError

pytestmark = pytest.mark.slow

EXPECTED = {
    "bert-qa": (["input_ids", "attention_mask", "token_type_ids"], ["start_logits", "end_logits"]),
    "roberta": (["input_ids", "attention_mask", "token_type_ids"], ["logits"]),
    "vit": (["pixel_values"], ["logits"]),
    "wav2vec2": (["input_values"], ["logits"]),
}


NAMES = [pytest.param(name, marks=pytest.mark.wide) if name == "roberta" else name for name in EXPECTED]
"""To our code RoBERTa is what BERT is."""


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_has_the_inputs_and_outputs_of_its_task(name: str, exported: Callable[[str], Exported]) -> None:
    found = exported(name)
    session = found.session()
    inputs, outputs = EXPECTED[name]
    assert [value.name for value in session.get_inputs()] == inputs
    assert [value.name for value in session.get_outputs()] == outputs
    assert all(value.shape[0] == "batch" for value in session.get_inputs())
    verified = found.verified["model"]
    assert verified.drift.relative_error < 1e-5
    assert len(verified.trials) == 4
    assert any("padding" in trial for trial in verified.trials) is (inputs[0] == "input_ids")


def test_a_length_of_one_is_right_though_the_example_has_more(exported: Callable[[str], Exported]) -> None:
    """An example of length 1 would have made it a constant, and nothing else would run."""
    import torch

    found = exported("bert-qa")
    assert any("length 1" in trial.split(", ") for trial in found.verified["model"].trials)
    feeds = {name: np.ones((1, 1), np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.inference_mode():
        expected = build("bert-qa")(**{name: torch.from_numpy(array) for name, array in feeds.items()})
    got = found.session().run(["start_logits"], feeds)[0]
    assert np.allclose(got, expected.start_logits.numpy(), atol=1e-5)


def test_batch_normalization_is_folded_into_the_convolutions_before_it(tmp_path: Path) -> None:
    found = export(save("resnet", tmp_path / "source"), tmp_path)
    assert found.steps["torch.fold-batch-norm"].counts == {"folded": 8, "left": 0}
    assert "BatchNormalization" not in found.graphs["model"].operators


def test_a_task_that_the_folder_has_no_weights_for_is_refused(tmp_path: Path) -> None:
    folder = save("bert", tmp_path / "source")
    with pytest.raises(OptimError) as caught:
        export(folder, tmp_path, task="text-classification")
    assert caught.value.reference == "source-weights-incomplete"
    assert "classifier" in caught.value.cause
    with pytest.raises(OptimError) as caught:
        export(folder, tmp_path, task="text-clasification")
    assert caught.value.reference == "unknown-task" and "text-classification" in caught.value.cause
