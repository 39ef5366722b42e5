"""A decoder without and one with a past as one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from ort_models import DATA

from optim import ExitStatus, OptimError
from optim._engine.cli.main import main
from optim_plugins.torch.merge_decoders.merged_file import _drift, write_merged

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here")]


def silent(text: str) -> None:
    del text


PAIR, CROSS = ((DATA / f"{name}.without.onnx", DATA / f"{name}.with.onnx") for name in ("decoder", "cross-decoder"))
"""Exported by ``two_decoders.py``."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))


def test_one_file_gives_what_both_gave(tmp_path: Path) -> None:
    made = write_merged(*PAIR, tmp_path / "merged.onnx", silent)
    assert made.drift < 1e-5 and made.prefills == 4 and made.steps == 8
    assert made.size_bytes < 0.6 * made.apart_bytes
    graph = onnx.load(made.path, load_external_data=False).graph
    (dispatch,) = [node for node in graph.node if node.op_type == "If"]
    assert [len(attribute.g.initializer) for attribute in dispatch.attribute] == [0, 0]
    session = onnxruntime.InferenceSession(str(made.path), providers=["CPUExecutionProvider"])
    past = {
        f"past_key_values.{i}.{part}": np.zeros((1, 4, 0, 8), np.float32) for i in range(2) for part in ("key", "value")
    }
    ids = np.array([[3, 4, 5]])
    whole = session.run(["logits"], {"input_ids": ids, "attention_mask": np.ones_like(ids), **past})[0]
    first = session.run(None, {"input_ids": ids[:, :2], "attention_mask": np.ones((1, 2), np.int64), **past})
    presents = dict(zip([o.name for o in session.get_outputs()], first, strict=True))
    grown = {name: presents[name.replace("past_key_values", "present")] for name in past}
    last = session.run(["logits"], {"input_ids": ids[:, 2:], "attention_mask": np.ones_like(ids), **grown})[0]
    assert np.allclose(last[:, 0], whole[:, 2], atol=1e-5)


def test_keys_and_values_of_an_encoder_are_passed_through(tmp_path: Path) -> None:
    made = write_merged(*CROSS, tmp_path / "merged.onnx", silent)
    graph = onnx.load(made.path, load_external_data=False).graph
    assert "encoder_hidden_states" in {value.name for value in graph.input}
    assert "present.0.encoder.key" in {value.name for value in graph.output}
    assert made.drift < 1e-5


def test_another_weight_in_one_of_them_is_kept_apart(tmp_path: Path) -> None:
    same = write_merged(*PAIR, tmp_path / "same.onnx", silent)
    changed = onnx.load(PAIR[1])
    weight = next(t for t in changed.graph.initializer if t.name.endswith("wpe.weight"))
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 2, weight.name))
    onnx.save(changed, tmp_path / "with.onnx")
    made = write_merged(PAIR[0], tmp_path / "with.onnx", tmp_path / "merged.onnx", silent)
    assert made.shared == same.shared - 1 and made.drift < 1e-5


def test_the_wrong_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        write_merged(PAIR[1], PAIR[0], tmp_path / "merged.onnx", silent)
    assert caught.value.reference == "decoders-do-not-fit"
    assert not (tmp_path / "merged.onnx").exists()


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "merged.onnx").write_text("mine")
    status = main(["merge-decoders", *map(str, PAIR), "-o", str(tmp_path / "merged.onnx")])
    assert status == ExitStatus.USAGE and "file-exists" in capsys.readouterr().err
    assert (tmp_path / "merged.onnx").read_text() == "mine"


def test_a_merged_graph_that_gives_something_else_is_an_error() -> None:
    ones = np.ones(3, np.float32)
    with pytest.raises(OptimError) as caught:
        _drift({"prefill": [({"logits": ones}, {"logits": 2 * ones})]})
    assert caught.value.reference == "merge-differs"
    assert caught.value.cause.startswith("in prefill: drift 1")
