"""Causal language models as one graph: a prefill is a step without a past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from exporting import Exported
from tiny_models import build, layers_of

from optim import OptimError

pytestmark = pytest.mark.slow


WIDE = [pytest.param(name, marks=pytest.mark.wide) for name in ("gemma3", "qwen3", "phi3")]
"""To our code these are what Llama is."""


@pytest.fixture(scope="module", params=["gpt2", "llama", *WIDE])
def made(request: pytest.FixtureRequest, exported: Callable[[str], Exported]) -> tuple[str, Exported]:
    return request.param, exported(request.param)


def state(name: str) -> list[str]:
    return [f"{layer}.{part}" for layer in range(layers_of(name)) for part in ("key", "value")]


def test_a_decoder_is_one_graph_with_its_past_as_inputs_and_outputs(made: tuple[str, Exported]) -> None:
    name, found = made
    graph = found.proto().graph
    assert list(found.graphs) == ["model"]
    assert "If" not in {node.op_type for node in graph.node}
    inputs = {value.name: value for value in graph.input}
    assert list(inputs) == [
        "input_ids",
        "attention_mask",
        "position_ids",
        *(f"past_key_values.{s}" for s in state(name)),
    ]
    assert [value.name for value in graph.output] == ["logits", *(f"present.{s}" for s in state(name))]
    assert _dimensions(inputs["input_ids"]) == ["batch", "sequence"]
    assert _dimensions(inputs["attention_mask"]) == ["batch", "total"]
    past = _dimensions(inputs["past_key_values.0.key"])
    assert (past[0], past[2]) == ("batch", "past") and isinstance(past[1], int) and isinstance(past[3], int)
    assert found.graphs["model"].state == {f"present.{s}": f"past_key_values.{s}" for s in state(name)}


def test_it_was_held_against_torch_with_and_without_a_past_and_with_padding(made: tuple[str, Exported]) -> None:
    name, found = made
    verified = found.verified["model"]
    assert verified.skipped == ()
    assert any("without a past" in name for name in verified.trials)
    assert any("left padding" in name for name in verified.trials)
    assert any("right padding" in name for name in verified.trials)
    assert verified.drift.relative_error < 1e-5
    assert {found.name for found in verified.comparisons} == {"logits", *(f"present.{s}" for s in state(name))}


def test_greedy_tokens_are_those_of_generate(made: tuple[str, Exported]) -> None:
    import torch

    name, found = made
    assert found.verified["model"].tokens >= 20
    assert found.verified["model"].notes == ()  # the weights do not collapse to one token
    model, ids = build(name), torch.tensor([[11, 12, 13, 14]])
    with torch.inference_mode():
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=9)
    got = found.decoder().generate(ids.numpy(), max_new_tokens=9)
    assert np.array_equal(got[0], expected[0, 4 : 4 + got.shape[1]].numpy())


def test_weights_are_stored_once_also_where_embeddings_are_tied(made: tuple[str, Exported]) -> None:
    name, found = made
    parameters = sum(parameter.nbytes for parameter in build(name).parameters())
    weights = found.path().with_name("model.onnx.data").stat().st_size
    assert weights < parameters + 4096


def test_a_machine_s_paths_are_not_in_the_graph(made: tuple[str, Exported]) -> None:
    _, found = made
    assert b"site-packages" not in found.path().read_bytes()


def test_sampling_is_repeated_by_its_seed(made: tuple[str, Exported]) -> None:
    _, found = made
    decoder = found.decoder()
    draw = [decoder.generate([[5, 6, 7]], max_new_tokens=8, sample=True, temperature=2.0, seed=s) for s in (1, 1, 2)]
    assert np.array_equal(draw[0], draw[1])
    assert not np.array_equal(draw[0], draw[2])


def _dimensions(value: onnx.ValueInfoProto) -> list[int | str]:
    return [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim]


def test_prompts_of_several_lengths_are_padded_and_change_nothing(made: tuple[str, Exported]) -> None:
    decoder = made[1].decoder()
    prompts = [[5, 6, 7, 8], [9, 10]]
    together = decoder.generate(prompts, max_new_tokens=6)
    alone = [decoder.generate([prompt], max_new_tokens=6)[0] for prompt in prompts]
    for row, expected in zip(together, alone, strict=True):
        assert row[: len(expected)].tolist() == expected.tolist()


@pytest.mark.parametrize("prompt", [[], [[]], [5, 6], {"ids": np.ones((1, 2), np.int64)}])
def test_what_is_no_prompt_is_refused(made: tuple[str, Exported], prompt: Any) -> None:
    with pytest.raises(OptimError) as caught:
        made[1].decoder().generate(prompt)
    assert caught.value.reference == "bad-prompt"


def test_a_graph_with_a_wrong_weight_is_found_out(exported: Callable[[str], Exported]) -> None:
    """Negative control: what verifies a decoder must not accept any decoder."""
    import onnxruntime

    from optim import OptimError
    from optim_plugins.export.verify import verify_component, verify_generation

    found = exported("llama")
    spoiled = onnx.load(found.path())
    weight = next(t for t in spoiled.graph.initializer if t.name.endswith("embed_tokens.weight"))
    array = onnx.numpy_helper.to_array(weight).copy()
    array[20:40] = array[20:40][::-1]
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    session = onnxruntime.InferenceSession(spoiled.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(OptimError) as caught:
        verify_component(session, found.folder / "evidence", found.evidence.component("model"))
    assert caught.value.reference == "export-differs"
    other = found.decoder()
    other.session = session
    with pytest.raises(OptimError) as caught:
        verify_generation(other.generate, found.folder / "evidence", found.evidence)
    assert caught.value.reference == "generation-differs"
