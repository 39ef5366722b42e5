"""Modules from a function of the user's own, good and bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from exporting import export

from optim import OptimError

pytestmark = pytest.mark.slow

MODULE = "torch_factories"


def refusal(factory: str, folder: Path, **request: object) -> OptimError:
    with pytest.raises(OptimError) as caught:
        export(f"{MODULE}:{factory}", folder, **request)  # type: ignore[arg-type]
    return caught.value


def test_dimensions_that_differ_between_examples_are_dynamic(tmp_path: Path) -> None:
    found = export(f"{MODULE}:several_examples", tmp_path)
    shapes = {value.name: value.shape for value in found.session().get_inputs()}
    assert shapes == {"x": ["batch", "x_1", 4], "scale": ["batch", 1, 1]}
    outputs = {value.name: value.shape for value in found.session().get_outputs()}
    assert outputs == {"scores": ["batch", "x_1", 3], "sum": ["batch", "x_1"]}
    assert len(found.verified["model"].trials) == 5


def test_one_example_leaves_every_dimension_fixed_and_says_so(tmp_path: Path) -> None:
    found = export(f"{MODULE}:one_example", tmp_path)
    assert [value.shape for value in found.session().get_inputs()] == [[2, 5, 4], [2, 1, 1]]
    assert "every dimension is fixed" in found.steps["torch.load-factory"].notes[0]


def test_dimensions_are_named_by_the_user(tmp_path: Path) -> None:
    dynamic = {"x": ("rows", "steps", ""), "scale": ("rows", "", "")}
    found = export(f"{MODULE}:one_example", tmp_path, dynamic=dynamic)
    assert [value.shape for value in found.session().get_inputs()] == [["rows", "steps", 4], ["rows", 1, 1]]
    assert len(found.verified["model"].trials) == 4


def test_the_user_s_names_must_fit_the_inputs(tmp_path: Path) -> None:
    error = refusal("one_example", tmp_path, dynamic={"y": ("batch",)})
    assert error.reference == "unknown-input"
    error = refusal("one_example", tmp_path, dynamic={"x": ("batch",)})
    assert error.reference == "dynamic-rank" and "--dynamic x=batch,," in error.fix


def test_a_factory_that_raises_is_named_with_the_line(tmp_path: Path) -> None:
    error = refusal("raises", tmp_path)
    assert error.reference == "factory-failed"
    assert "no weights today" in error.cause and "torch_factories.py:" in error.cause


def test_a_factory_needs_its_arguments(tmp_path: Path) -> None:
    error = refusal("needs_arguments", tmp_path, arguments={"width": 3})
    assert error.reference == "factory-needs-arguments" and error.fix == "--source-arg depth=VALUE"
    error = refusal("several_examples", tmp_path, arguments={"widht": 3})
    assert error.reference == "factory-needs-arguments" and "widht" in error.cause


@pytest.mark.parametrize(
    ("factory", "reference"),
    [("returns_text", "factory-no-module"), ("no_example", "factory-no-example"), ("absent", "factory-not-found")],
)
def test_what_is_no_source_is_refused(factory: str, reference: str, tmp_path: Path) -> None:
    assert refusal(factory, tmp_path).reference == reference


def test_weights_drawn_at_random_are_the_same_in_every_process(tmp_path: Path) -> None:
    assert export(f"{MODULE}:unseeded", tmp_path).verified["model"].drift.relative_error < 1e-5


def test_a_module_that_draws_in_forward_is_refused(tmp_path: Path) -> None:
    error = refusal("noisy", tmp_path)
    assert error.reference == "source-not-repeatable" and "'output'" in error.what


def test_a_task_is_not_for_a_module_of_one_s_own(tmp_path: Path) -> None:
    assert refusal("one_example", tmp_path, task="text-generation").reference == "source-option-unused"


def test_an_input_that_nothing_reads_is_named(tmp_path: Path) -> None:
    error = refusal("unused_input", tmp_path)
    assert error.reference == "export-input-dropped" and "'unused'" in error.what


def test_a_mask_of_ones_is_padded_before_anything_is_traced(tmp_path: Path) -> None:
    found = export(f"{MODULE}:mask_of_ones", tmp_path)
    session, x = found.session(), np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1], [1, 0, 0, 0]], np.float32)
    got = session.run(None, {"x": x, "mask": mask})[0]
    assert np.allclose(got, [x[0].mean(0), x[1, 0]], atol=1e-6)


def test_a_branch_on_values_is_found_by_running_it_and_the_line_is_named(tmp_path: Path) -> None:
    error = refusal("branches", tmp_path)
    assert error.reference == "export-differs"
    assert "example 2" in error.cause


def test_what_no_exporter_can_trace_names_the_line(tmp_path: Path) -> None:
    error = refusal("branches", tmp_path, without=("torch.torchscript",))
    assert error.reference == "not-traceable"
    assert "torch_factories.py:" in error.cause and "if x.sum() > 0" in error.cause


def test_torchscript_takes_what_dynamo_cannot_and_the_report_says_so(tmp_path: Path) -> None:
    found = export(f"{MODULE}:script_only", tmp_path)
    assert found.steps["torch.dynamo"].status == "failed"
    assert found.steps["torch.torchscript"].reason == "instead of torch.dynamo, which failed"


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_a_scripted_module_keeps_its_branches_and_a_traced_one_has_none(tmp_path: Path) -> None:
    found = export(f"{MODULE}:scripted", tmp_path / "scripted")
    assert "If" in {node.op_type for node in found.proto().graph.node}
    assert "torch.export reads Python alone" in found.steps["torch.dynamo"].reason
    assert not found.steps["torch.torchscript"].notes
    traced = export(f"{MODULE}:scripted", tmp_path / "traced", arguments={"how": "trace"})
    assert {node.op_type for node in traced.proto().graph.node} == {"Constant", "Mul"}


def test_inputs_outputs_and_states_get_other_names(tmp_path: Path) -> None:
    rename = {"x": "pixels", "scores": "logits"}
    found = export(f"{MODULE}:several_examples", tmp_path, rename=rename, dynamic={"pixels": ("rows", "steps", "")})
    assert [value.name for value in found.session().get_inputs()] == ["pixels", "scale"]
    assert [value.name for value in found.session().get_outputs()] == ["logits", "sum"]
    rename = {"state.hidden": "memory", "present.state.hidden": "new_memory"}
    found = export(f"{MODULE}:recurrent", tmp_path / "recurrent", state=("state",), rename=rename)
    assert found.graphs["model"].state["new_memory"] == "memory"


def test_a_name_that_is_nobody_s_or_taken_is_refused(tmp_path: Path) -> None:
    error = refusal("one_example", tmp_path, rename={"y": "pixels"})
    assert error.reference == "unknown-input" and "'y'" in error.what
    assert refusal("one_example", tmp_path, rename={"x": "scale"}).reference == "bad-source-option"


def test_the_user_s_own_limit_of_drift_holds(tmp_path: Path) -> None:
    cast = {"torch.cast-dtype": {"dtype": "float16"}}
    error = refusal("several_examples", tmp_path, named=cast, max_drift=1e-6)
    assert error.reference == "export-differs" and "1e-06 allowed" in error.cause


def test_a_memory_may_be_absent_nested_and_partly_of_fixed_size(tmp_path: Path) -> None:
    found = export(f"{MODULE}:recurrent", tmp_path, state=("state",))
    shapes = {value.name: value.shape for value in found.session().get_inputs()}
    assert shapes == {"input_ids": ["batch", 3], "state.hidden": ["batch", 8], "state.seen": ["batch", "past", 8]}
    assert found.graphs["model"].state == {"present.state.hidden": "state.hidden", "present.state.seen": "state.seen"}
    assert "no memory, then three steps" in found.verified["model"].trials


def test_a_state_that_does_not_come_back_is_named(tmp_path: Path) -> None:
    error = refusal("several_examples", tmp_path, state=("scale",))
    assert error.reference == "state-not-returned" and "'scale'" in error.what
    assert refusal("several_examples", tmp_path, state=("mems",)).reference == "unknown-input"


def test_only_a_normalization_that_reads_alone_is_folded(tmp_path: Path) -> None:
    found = export(f"{MODULE}:conv_net", tmp_path)
    assert found.steps["torch.fold-batch-norm"].counts == {"folded": 1, "left": 1}
    assert found.verified["model"].drift.relative_error < 1e-5


def test_a_cast_runs_only_when_named_and_is_held_to_its_own_limit(tmp_path: Path) -> None:
    found = export(f"{MODULE}:several_examples", tmp_path, named={"torch.cast-dtype": {"dtype": "float16"}})
    assert {value.type for value in found.session().get_inputs()} == {"tensor(float16)"}
    assert 1e-6 < found.verified["model"].drift.relative_error < 1e-2
    feeds = {"x": np.ones((1, 2, 4), np.float16), "scale": np.ones((1, 1, 1), np.float16)}
    assert found.session().run(None, feeds)[0].dtype == np.float16


def test_an_exported_program_that_is_quantized_keeps_its_integers(tmp_path: Path) -> None:
    found = export(f"{MODULE}:exported_program", tmp_path)
    graph = onnx.load(found.graphs["model"].model.path)
    steps = sorted(node.op_type for node in graph.graph.node if node.op_type.endswith("Linear"))
    assert steps == ["DequantizeLinear", "DequantizeLinear", "QuantizeLinear"]
    weights = [tensor for tensor in graph.graph.initializer if sorted(tensor.dims) == [3, 4]]
    assert {tensor.data_type for tensor in weights} == {onnx.TensorProto.INT8}
    assert found.verified["model"].drift.relative_error < 1e-5


def test_arguments_and_results_that_no_graph_has_are_refused() -> None:
    import torch

    from optim_plugins.torch.arguments.argument_tree import bind, named_tensors

    with pytest.raises(OptimError) as caught:
        bind(torch.nn.Linear(2, 2), {"other": torch.ones(2)})
    assert caught.value.reference == "example-does-not-fit"
    for strange in ("text", ()):
        with pytest.raises(OptimError) as caught:
            named_tensors(strange, "output")
        assert caught.value.reference == "output-not-tensors"
