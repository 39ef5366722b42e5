"""Models that compare texts with pictures or sounds: a graph for each side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from exporting import Exported, source_of
from tiny_models import CLIP_TEXT, build

from optim import OptimError, SourceRequest

PARTS = {
    "clip": {"text_encoder": "text_embeds", "image_encoder": "image_embeds"},
    "siglip": {"text_encoder": "text_embeds", "image_encoder": "image_embeds"},
    "clap": {"text_encoder": "text_embeds", "audio_encoder": "audio_embeds"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_each_side_is_a_component_that_runs_on_other_sizes(name: str) -> None:
    source = source_of(build(name), SourceRequest("folder"))
    assert {part.name: part.outputs[0].name for part in source.components} == PARTS[name]
    for part in source.components:
        assert part.outputs[0].shape is not None and part.outputs[0].shape[0] == "batch"
        for trial in part.trials():
            (found,) = part.run(trial.steps[0].feeds).values()
            assert np.isfinite(found).all()


def test_a_made_up_text_ends_with_the_id_whose_place_clip_reads() -> None:
    text, _ = source_of(build("clip"), SourceRequest("folder")).components
    for trial in text.trials():
        feeds = trial.steps[0].feeds
        assert ((feeds["input_ids"] == CLIP_TEXT["eos_token_id"]).sum(axis=1) == 1).all()
        assert (feeds["attention_mask"][feeds["input_ids"] == CLIP_TEXT["eos_token_id"]] == 1).all()


def test_a_dimension_of_an_input_that_no_side_has_is_refused() -> None:
    with pytest.raises(OptimError) as caught:
        source_of(build("clip"), SourceRequest("folder", dynamic={"pixels": ("batch", "", "", "")}))
    assert caught.value.reference == "unknown-input"
    assert "pixel_values" in caught.value.cause
    named = {"pixel_values": ("pictures", "", "", "")}
    _, image = source_of(build("clip"), SourceRequest("folder", dynamic=named)).components
    assert image.inputs[0].shape == ("pictures", 3, 32, 32)


@pytest.mark.slow
def test_the_graphs_give_the_similarity_that_transformers_gives(exported: Callable[[str], Exported]) -> None:
    import torch

    found, model = exported("clip"), build("clip")
    assert list(found.graphs) == ["text_encoder", "image_encoder"]
    assert all(
        verified.drift.relative_error < 1e-5 and len(verified.trials) == 4 for verified in found.verified.values()
    )
    random = np.random.default_rng(0)
    texts = {"input_ids": random.integers(3, 90, (3, 7)), "attention_mask": np.ones((3, 7), np.int64)}
    texts["input_ids"][:, -1] = CLIP_TEXT["eos_token_id"]
    pictures = {"pixel_values": random.standard_normal((2, 3, 32, 32)).astype(np.float32)}
    (text,) = found.session("text_encoder").run(None, texts)
    (picture,) = found.session("image_encoder").run(None, pictures)
    text, picture = (array / np.linalg.norm(array, axis=-1, keepdims=True) for array in (text, picture))
    with torch.inference_mode():
        tensors = {name: torch.from_numpy(array) for name, array in (texts | pictures).items()}
        expected = model(**tensors).logits_per_image.numpy()
    assert np.allclose(found.evidence.facts["similarity_scale"] * picture @ text.T, expected, atol=1e-4)


@pytest.mark.slow
def test_neither_graph_holds_the_weights_of_the_other(exported: Callable[[str], Exported]) -> None:
    found, model = exported("clip"), build("clip")
    everything = sum(parameter.nbytes for parameter in model.parameters())
    weights = {name: graph.size_bytes - graph.model.path.stat().st_size for name, graph in found.graphs.items()}
    assert all(0.3 * everything < held < 0.8 * everything for held in weights.values()), (weights, everything)
