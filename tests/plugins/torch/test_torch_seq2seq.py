"""Encoder-decoders as two graphs, of which neither holds an If."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from exporting import Exported
from tiny_models import build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["t5", "whisper", pytest.param("bart", marks=pytest.mark.wide)])
def made(request: pytest.FixtureRequest, exported: Callable[[str], Exported]) -> tuple[str, Exported]:
    return request.param, exported(request.param)


def test_the_encoder_gives_what_the_decoder_takes(made: tuple[str, Exported]) -> None:
    name, found = made
    assert list(found.graphs) == ["encoder", "decoder"]
    encoder, decoder = found.proto("encoder").graph, found.proto("decoder").graph
    given = {value.name.replace("present.", "past_key_values.") for value in encoder.output}
    taken = {value.name for value in decoder.input}
    assert given == {name for name in taken if ".encoder." in name}
    assert ("encoder_attention_mask" in taken) is (name != "whisper")
    assert [value.name for value in decoder.output][:2] == ["logits", "present.0.decoder.key"]
    assert "If" not in {node.op_type for graph in (encoder, decoder) for node in graph.node}


def test_the_decoder_holds_none_of_the_encoder_s_weights(made: tuple[str, Exported]) -> None:
    name, found = made
    model = build(name)
    own = sum(parameter.nbytes for parameter in model.get_decoder().parameters())
    head = model.get_output_embeddings().weight.nbytes
    assert found.graphs["decoder"].size_bytes - len(found.path("decoder").read_bytes()) < own + head


def test_both_were_held_against_torch_and_generate_the_same_tokens(made: tuple[str, Exported]) -> None:
    _, found = made
    assert found.verified
    assert all(verified.drift.relative_error < 1e-5 and not verified.skipped for verified in found.verified.values())
    assert any("steps" in trial for trial in found.verified["decoder"].trials)
    assert found.verified["decoder"].tokens >= 16


def test_a_prompt_of_token_ids_needs_no_mask(made: tuple[str, Exported]) -> None:
    name, found = made
    if name == "whisper":
        pytest.skip("it reads sound, which has no mask")
    decoder, ids = found.decoder(), [[5, 6, 7, 8]]
    masked = {"input_ids": np.array(ids), "attention_mask": np.ones((1, 4), np.int64)}
    assert np.array_equal(decoder.generate(ids, max_new_tokens=5), decoder.generate(masked, max_new_tokens=5))
