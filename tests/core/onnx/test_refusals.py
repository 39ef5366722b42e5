"""The runtime's refusals in words of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from optim.onnx.refusals import plain_message, session_failed

REFUSED = "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for MatMul(13) node with name "

SIGNATURE = """[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: /src/core/state.cc:266
onnxruntime::common::Status onnxruntime::utils::Save(const onnxruntime::Env&, const std::function<void (int)>&) const
index.Max() > -1 was false. They should have been populated."""


@pytest.mark.parametrize(("name", "end"), [("mm", "types (node 'mm')"), ("", "with these types")])
def test_a_node_is_named_where_it_has_a_name(name: str, end: str) -> None:
    error = session_failed(Path("model.onnx"), RuntimeError(f"{REFUSED}'{name}'"))
    assert error.cause.endswith(end)


def test_signatures_of_the_runtimes_functions_are_left_out() -> None:
    said = "Exception during initialization: index.Max() > -1 was false. They should have been populated."
    assert plain_message(" ".join(SIGNATURE.split())) == said


def test_nodes_of_one_name_are_told_with_a_command_that_renames_them() -> None:
    text = "This is an invalid model. Error: two nodes with same node name (n)."
    error = session_failed(Path("model.onnx"), RuntimeError(f"[ONNXRuntimeError] : 1 : FAIL : {text}"))
    assert error.cause == "two nodes have the name 'n'"
    assert "python -c" in error.fix
