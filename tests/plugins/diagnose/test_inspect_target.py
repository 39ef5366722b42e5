"""``optim inspect MODEL --target T``: which nodes the provider takes, and what is refused."""

from __future__ import annotations

import json

import pytest
from timed_models import write_network

from optim._engine.cli.main import main
from optim.onnx.operators import node_work
from optim.onnx.skeleton import read_skeleton


@pytest.fixture
def network(tmp_path):
    write_network(tmp_path / "model.onnx", {"a": 1})
    return tmp_path / "model.onnx"


def test_a_provider_that_takes_no_node_leaves_all_of_them_by_name(network, capsys):
    assert main(["inspect", str(network), "--target", "ep:AzureExecutionProvider", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    model = read_skeleton(network)
    parts = {part["provider"]: part for part in found["parts"]}
    assert parts["AzureExecutionProvider"]["nodes"] == 0
    assert parts["CPUExecutionProvider"]["nodes"] == len(model.graph.node)
    assert {name for name, _ in found["left"]} == {node.name for node in model.graph.node}
    assert sum(node_work(model).values()) > 0 and parts["CPUExecutionProvider"]["work"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("target", "reference"),
    [
        ("nobody", "unknown-target"),
        ("ep:NobodyExecutionProvider", "provider-missing"),
        ("ep:AcmeExecutionProvider,library=acme_is_not_installed", "provider-missing"),
        ("cuda-offline", "not-assigned"),
    ],
)
def test_a_target_that_cannot_be_asked_is_refused(network, target, reference, capsys):
    assert main(["inspect", str(network), "--target", target]) != 0
    assert f"error[{reference}]" in capsys.readouterr().err
