from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

import onnx
import onnxruntime as ort
import ort_models
import pytest
from ort_models import apply, context, export, feeds_for, names_and_shapes, operators, proto, relative_l2, stored

from optim import Model, OptimError, PassResult
from optim.options import parse_options
from optim_plugins.ort.fuse import fuse_transformer
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.fuse.fuse_transformer_options import Fusion

pytestmark = pytest.mark.slow

LOSSLESS = 1e-4
TRANSFORMERS = [name for name in ort_models.EXPORTS if not name.startswith("convnet")]
LIGHT = ("skip_layer_normalization", "attention")
FUSED = {
    "bert.dynamo": {"multi_head_attention": 2, "attention": 2, "bias_gelu": 2, "skip_layer_normalization": 4},
    "bert.ts": {"multi_head_attention": 2, "attention": 2, "gelu": 2, "bias_gelu": 2, "skip_layer_normalization": 4},
    "gpt2.dynamo": {"multi_head_attention": 2, "reshapes": 15, "gelu": 2, "skip_layer_normalization": 5},
    "gpt2.ts": {"multi_head_attention": 2, "reshapes": 23, "gelu": 2, "skip_layer_normalization": 2},
    "llama.dynamo": {"multi_head_attention": 2, "reshapes": 6, "rotary_embedding": 4, "rms_normalization": 5},
    "llama.ts": {"multi_head_attention": 2, "reshapes": 6, "rotary_embedding": 4, "rms_normalization": 5},
}
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from pathlib import Path
import ort_models
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
folder = Path(sys.argv[1])
model = ort_models.export("bert.ts", folder)
print(dict(ort_models.apply(FuseTransformer, model, folder, engine="onnxruntime").counts))
"""


@dataclass(frozen=True)
class Fused:
    """An export, result, and the files of weights that were written."""

    model: Model
    result: PassResult
    weights: set[Path]


Fuse = Callable[..., Fused]


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Fuse:
    """Each export is fused once with the same fusions: that takes most of the time here."""

    @cache
    def made(name: str, leave_out: tuple[str, ...] = ()) -> Fused:
        folder = tmp_path_factory.mktemp("fused")
        model = export(name, folder)
        before = set((folder / "store").glob("*.data"))
        result = apply(FuseTransformer, model, folder, leave_out=leave_out)
        return Fused(model, result, set((folder / "store").glob("*.data")) - before)

    return made


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_attention_of_every_export_becomes_one_operator(name: str, fused: Fuse) -> None:
    result = fused(name).result

    assert dict(result.counts) == FUSED[name]
    assert result.notes == ()
    assert "Softmax" not in operators(result.model)


@pytest.mark.parametrize("leave_out", [(), LIGHT], ids=["all", "light"])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_what_is_fused_computes_the_same_with_and_without_a_past_and_with_padding(
    name: str, leave_out: tuple[str, ...], fused: Fuse
) -> None:
    found = fused(name, leave_out)

    for batch, sequence, past in ((1, 2, 7), (2, 3, 5), (2, 4, 0)):
        feeds = feeds_for(name, batch=batch, sequence=sequence, past=past)
        assert relative_l2(found.model, found.result.model, feeds) <= LOSSLESS


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_inputs_outputs_and_opset_stay(name: str, fused: Fuse) -> None:
    found = fused(name)

    assert names_and_shapes(found.result.model) == names_and_shapes(found.model)
    assert found.result.interface is None


@pytest.mark.parametrize("name", ["bert.ts", "gpt2.dynamo", "llama.ts"])
def test_a_second_time_there_is_nothing_left(name: str, fused: Fuse, tmp_path: Path) -> None:
    once = fused(name).result.model
    twice = apply(FuseTransformer, once, tmp_path)

    assert not twice.changed
    assert twice.model == once
    assert twice.notes == ("none of its patterns is in the graph",)


def test_the_input_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = export("bert.ts", tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "store").iterdir()}

    apply(FuseTransformer, model, tmp_path)

    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_no_weight_is_written_while_projections_stay_outside(name: str, fused: Fuse) -> None:
    found = fused(name, LIGHT)

    assert found.result.changed
    assert found.weights == set()


def test_projections_taken_in_are_one_operator_less_each(fused: Fuse) -> None:
    outside = operators(fused("bert.ts", LIGHT).result.model)
    inside = operators(fused("bert.ts", LIGHT[:1]).result.model)

    assert (outside.count("MultiHeadAttention"), outside.count("Attention")) == (2, 0)
    assert (inside.count("MultiHeadAttention"), inside.count("Attention")) == (0, 2)
    assert outside.count("MatMul") - inside.count("MatMul") == 6


@pytest.mark.parametrize("name", ["llama.dynamo", "llama.ts"])
def test_rotary_embeddings_share_one_table(name: str, fused: Fuse) -> None:
    before, after = operators(fused(name).model), operators(fused(name).result.model)

    assert (before.count("Neg"), after.count("Neg")) == (4, 0)
    assert after.count("RotaryEmbedding") == 4
    assert (after.count("Cos"), after.count("Sin")) == (1, 1)


@pytest.mark.parametrize("name", ["llama.dynamo", "llama.ts"])
def test_rms_normalization_is_written_as_the_runtime_recognizes_it(name: str, fused: Fuse, tmp_path: Path) -> None:
    result = fused(name).result
    path = tmp_path / "opened.onnx"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(path)
    ort.InferenceSession(str(result.model.path), options, providers=["CPUExecutionProvider"])

    opened = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]

    assert opened.count("SimplifiedLayerNormalization") + opened.count("SkipSimplifiedLayerNormalization") == 5


@pytest.mark.parametrize("name", ["gpt2.dynamo", "gpt2.ts"])
def test_products_are_not_flattened_for(name: str, fused: Fuse) -> None:
    after = operators(fused(name, LIGHT).result.model)

    assert "Gemm" not in after
    assert after.count("MatMul") == 9


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_targets_of_reshapes_are_constants(name: str, fused: Fuse) -> None:
    graph = proto(fused(name).result.model).graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    computed = [node for node in graph.node if node.op_type == "Reshape" and node.input[1] not in constants]

    assert len(computed) <= 2


def test_a_graph_without_attention_is_not_applicable(tmp_path: Path) -> None:
    answer = FuseTransformer().applicable(export("convnet.ts", tmp_path), ort_models.CPU)

    assert not answer
    assert answer.reason == "the graph has no attention to fuse: no Softmax beside a MatMul"


def test_leaving_everything_out_changes_nothing_and_says_so(tmp_path: Path) -> None:
    model = export("bert.ts", tmp_path)
    everything = get_args(Fusion)

    result = apply(FuseTransformer, model, tmp_path, leave_out=everything)

    assert not result.changed
    assert result.model == model
    assert result.notes


def test_an_unknown_fusion_is_refused() -> None:
    with pytest.raises(OptimError, match="leave_out") as error:
        parse_options(FuseTransformer, {"leave_out": ["skip_layernorm"]})

    assert error.value.reference == "bad-option"
    assert "skip_layer_normalization" in error.value.cause


@pytest.mark.parametrize(("name", "proposed"), [("bert.dynamo", 3), ("gpt2.ts", 2), ("llama.dynamo", 1)])
def test_what_is_proposed_gives_different_models(name: str, proposed: int, tmp_path: Path) -> None:
    model = export(name, tmp_path)

    options = list(FuseTransformer().candidates(model, ort_models.CPU, context(tmp_path)))
    ours = [one for one in options if one.engine == "optim"]
    results = [FuseTransformer().apply(model, one, context(tmp_path)) for one in ours]

    assert [one.engine for one in options[len(ours) :]] == ["onnxruntime"]
    assert len(ours) == proposed
    assert len({result.model.digest for result in results}) == proposed


@pytest.mark.parametrize("name", ["bert.dynamo", "bert.ts", "gpt2.ts"])
def test_onnxruntimes_own_optimizer_is_the_other_engine(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)

    result = apply(FuseTransformer, model, tmp_path, engine="onnxruntime")

    assert result.counts["SkipLayerNormalization"] == 4
    assert relative_l2(model, result.model, feeds_for(name)) <= LOSSLESS
    assert names_and_shapes(result.model) == names_and_shapes(model)


def test_a_crash_of_onnxruntimes_optimizer_costs_one_model_type_and_is_told(tmp_path: Path) -> None:
    graph = onnx.load(ort_models.DATA / "gpt2.dynamo.onnx")
    for node in graph.graph.node:
        if node.op_type == "Gemm":
            del node.input[2]
    onnx.save(graph, tmp_path / "without_biases.onnx")
    model = stored(tmp_path / "without_biases.onnx", tmp_path)

    result = apply(FuseTransformer, model, tmp_path, engine="onnxruntime")

    assert result.notes[0].startswith("as model type gpt2 it crashed: ")
    assert relative_l2(model, result.model, feeds_for("gpt2.dynamo")) <= LOSSLESS


def test_onnxruntimes_optimizer_leaves_rms_normalization_alone(tmp_path: Path) -> None:
    result = apply(FuseTransformer, export("llama.ts", tmp_path), tmp_path, engine="onnxruntime")

    assert not result.changed
    assert result.notes[0] == "onnxruntime's optimizer found nothing to fuse"


def test_onnxruntimes_optimizer_is_left_out_where_it_needs_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuse_transformer, "_MEMORY_LIMIT_BYTES", 1 << 20)

    result = apply(FuseTransformer, export("bert.ts", tmp_path), tmp_path, engine="onnxruntime")

    assert not result.changed
    assert "6 times the model" in result.notes[0]


def test_onnxruntimes_optimizer_prints_nothing_and_needs_no_torch(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)],
        cwd=Path(ort_models.__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout == "{'BiasGelu': 2, 'SkipLayerNormalization': 4}\n"
    assert found.stderr == ""


def test_where_onnxruntimes_optimizer_crashes_as_every_type_the_other_engine_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("onnxruntime.transformers.optimizer.optimize_model", crash)
    with pytest.raises(OptimError) as caught:
        apply(FuseTransformer, export("bert.ts", tmp_path), tmp_path, engine="onnxruntime")
    assert caught.value.reference == "optimizer-crashed"
    assert caught.value.cause == "as model type bert it crashed: IndexError: list index out of range"
