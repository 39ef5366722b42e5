"""Differences between two models that no output on any sample shows are named, and no pass may make them."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from optim._engine.compare.distrust import hidden_differences, require_fit, require_in_place
from optim.errors import OptimError
from optim.onnx.files import save_in_store
from optim.passes import Interface, Pass, PassResult


class VendorPass(Pass):
    name = "vendor.pass"


class FixesSizes(VendorPass):
    def inputs_for(self, options, model):
        return model.inputs


def model(folder, name, *, inputs=("x", "z"), outputs=("p", "q"), batch="N", random=""):
    """A model that gives its first input as each output."""
    nodes = [helper.make_node("Identity", [inputs[0]], [one]) for one in outputs]
    if random:
        trains = random == "Dropout"
        drawn = (
            helper.make_node("Dropout", ["x", "", "always"], ["noise"])
            if trains
            else helper.make_node(random, [], ["noise"], shape=[1])
        )
        inner = helper.make_graph(
            [drawn], "inner", [], [helper.make_tensor_value_info("noise", TensorProto.FLOAT, None if trains else [1])]
        )
        always = helper.make_tensor("always", TensorProto.BOOL, [], [True])
        nodes.append(helper.make_node("Constant", [], ["always"], value=always))
        nodes.append(helper.make_node("If", ["always"], ["unused"], then_branch=inner, else_branch=inner))
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(one, TensorProto.FLOAT, [batch, 4]) for one in inputs],
        [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in outputs],
    )
    proto = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    return save_in_store(ir.serde.deserialize_model(proto), folder / "store")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ()),
        ({"outputs": ("q", "p")}, ("its outputs are in another order: 'q' is in the place of 'p'",)),
        ({"inputs": ("x",)}, ("it lacks inputs z",)),
        ({"inputs": ("x", "z", "t")}, ("it has more inputs: t",)),
        (
            {"batch": 2, "inputs": ("x",)},
            ("it lacks inputs z", "it takes no other size than 2 in dimension 0 of input 'x', which was open"),
        ),
        (
            {"random": "RandomUniform"},
            ("it draws random numbers (RandomUniform), so another call may give another answer",),
        ),
        ({"random": "Dropout"}, ("it draws random numbers (Dropout), so another call may give another answer",)),
    ],
)
def test_a_pass_may_not_make_a_difference_that_outputs_do_not_show(tmp_path, change, says):
    before, after = model(tmp_path, "before"), model(tmp_path, "after", **change)
    assert hidden_differences(before, after) == says
    require_in_place(PassResult(after, True, interface=Interface()), before, after, VendorPass)
    if says:
        with pytest.raises(OptimError, match=r"vendor\.pass made a model that does not take the place") as caught:
            require_in_place(PassResult(after, True), before, after, VendorPass)
        assert caught.value.reference == "interface-changed"
        assert caught.value.cause == "; ".join(says)


def test_a_pass_that_says_so_may_fix_sizes(tmp_path):
    before, after = model(tmp_path, "before"), model(tmp_path, "after", batch=2)
    require_in_place(PassResult(after, True), before, after, FixesSizes)


def test_notes_of_a_pass_are_cut(tmp_path):
    notes = ("x" * 5_000_000, "\udcff.onnx", *("note",) * 500)
    found = require_fit(PassResult(model(tmp_path, "before"), False, notes), PassResult, "vendor.pass")
    assert len(found.notes) == 100
    assert max(map(len, found.notes)) == 2_000
    assert found.notes[1] == "\\udcff.onnx"
