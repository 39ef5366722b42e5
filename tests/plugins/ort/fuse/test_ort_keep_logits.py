"""The last token's logits alone: the same numbers, computed for one token, and held by the gate in every chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from ort_models import DATA, apply, export, feeds_for, run

from optim import Model, Pass
from optim._engine.compare.comparison import compare_variants
from optim._engine.gate.variation import Variation, measure
from optim.arrays import Feeds
from optim.decoders import KEPT_LOGITS
from optim.decoders.conventions import last_logits
from optim.onnx import read_ir
from optim_plugins.goals.decoders.decoder import session_interface
from optim_plugins.goals.decoders.steps import BufferSteps
from optim_plugins.ort.fuse.past.keep_logits import keep_logits
from optim_plugins.ort.fuse.past.share_past import SharePast
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.prepare.clean import Clean
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights

WHOLE = {"attention_mask": np.ones((2, 4), np.int64)}


@pytest.mark.parametrize(("name", "cut"), [("gpt2.dynamo", 1), ("llama.dynamo", 22), ("llama.ts", 22)])
def test_a_run_may_ask_for_the_logits_of_the_last_tokens(name: str, cut: int, tmp_path: Path) -> None:
    result = apply(SharePast, export(name, tmp_path), tmp_path)
    assert result.counts[KEPT_LOGITS] == cut
    feeds = feeds_for(name, sequence=4, past=0) | WHOLE
    whole = run(result.model, feeds)["logits"]
    for asked in (1, 3, 9):
        kept = run(result.model, feeds | {KEPT_LOGITS: np.array(asked, np.int64)})["logits"]
        np.testing.assert_allclose(kept, whole[:, -asked:], atol=1e-6)
    assert KEPT_LOGITS not in {info.name for info in result.model.inputs}


@pytest.mark.parametrize(
    ("pass_class", "options"),
    [(Clean, {}), (QuantizeWeights, {"bits": 4}), (QuantizeDynamic, {}), (ConvertFloat16, {})],
)
def test_what_comes_later_leaves_the_input(pass_class: type[Pass], options: dict[str, Any], tmp_path: Path) -> None:
    model = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model
    feeds = feeds_for("llama", sequence=4, past=0) | WHOLE
    result = apply(pass_class, model, tmp_path, [feeds], **options)
    kept = run(result.model, feeds | {KEPT_LOGITS: np.array(1, np.int64)})["logits"]
    dynamic = pass_class is QuantizeDynamic  # its scales are those of the tokens that there are
    np.testing.assert_allclose(kept, run(result.model, feeds)["logits"][:, -1:], atol=0.1 if dynamic else 1e-5)


def test_a_step_of_a_generation_asks_for_one(tmp_path: Path) -> None:
    model = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
    ids = np.array([[5, 6, 7]])
    steps = BufferSteps(session, session_interface(session), 1, 4, {})
    assert steps.advance(ids, np.ones_like(ids)).shape == (1, 1, 80)


def test_what_mixes_tokens_is_not_cut(tmp_path: Path) -> None:
    graph = onnx.load(DATA / "llama.dynamo.onnx")
    head = next(node for node in graph.graph.node if "logits" in node.output)
    head.output[0] = "scores"
    graph.graph.node.append(onnx.helper.make_node("CumSum", ["scores", "axis"], ["logits"], name="mixes"))
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1), "axis"))
    onnx.save(graph, tmp_path / "mixing.onnx")
    assert keep_logits(read_ir(tmp_path / "mixing.onnx")) == 0


class _Original:
    """What a variant reads of a reference: one sample, and the outputs of the original on it."""

    def __init__(self, model: Model, feeds: Feeds) -> None:
        self.original, self._feeds, self._outputs = model, feeds, run(model, feeds)

    def feed_set(self) -> _Original:
        return self

    def name_of(self, index: int) -> str:
        return str(index)

    def sample(self, _: int) -> Feeds:
        return self._feeds

    def expected(self, _: int) -> Feeds:
        return self._outputs

    def variations(self) -> dict[str, Variation]:
        return {name: measure([(array, None)]) for name, array in self._outputs.items()}


class _Session:
    def __init__(self, model: Model, wrong: float = 0.0) -> None:
        self._model, self._wrong = model, wrong

    def run(self, feeds: Feeds) -> Feeds:
        outputs = run(self._model, feeds)
        return {**outputs, "logits": outputs["logits"] + self._wrong * (KEPT_LOGITS in feeds)}


def test_the_gate_holds_them_against_the_original(tmp_path: Path) -> None:
    model = export("llama.dynamo", tmp_path)
    result = apply(SharePast, model, tmp_path)
    reference = _Original(model, feeds_for("llama", sequence=4, past=0) | WHOLE)
    for wrong, held in ((0.0, True), (1.0, False)):
        (found,) = compare_variants(
            _Session(result.model, wrong),  # type: ignore[arg-type]
            reference,  # type: ignore[arg-type]
            [0],
            [result.interface] if result.interface else [],
            None,  # type: ignore[arg-type]
        )
        assert found.name == "the last token's alone: logits" and found.shape == (2, 1, 80)
        assert (found.relative_error < 1e-5) is held


def test_a_row_that_ends_in_padding_has_no_last_token() -> None:
    logits, mask = np.arange(12.0).reshape(2, 3, 2), np.array([[1, 1, 1], [1, 1, 0]])
    kept = last_logits({"logits": logits}, {"attention_mask": mask})["logits"]
    assert kept.tolist() == [[[4, 5]], [[0, 0]]]
