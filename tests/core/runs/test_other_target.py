"""``optim verify --other-target``: one model on two targets."""

from __future__ import annotations

import json

import onnx
import pytest
from installed_plugin import installed
from timed_models import write_network

from optim._engine.cli.main import main
from optim.errors import ExitStatus

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.mark.slow
def test_a_model_is_compared_with_itself_on_another_target(tmp_path, capsys):
    with installed(tmp_path, "offset_plugin"):
        model = str(write_network(tmp_path / "model.onnx", useful=1))
        assert main(["verify", model, "--other-target", "offset", "--json"]) == ExitStatus.DELIVERED
        output = json.loads(capsys.readouterr().out)["outputs"][0]
        samples = len(output["each"])
        assert output["above"] == {"0": samples, "1e-4": samples, "1e-3": samples, "1e-2": 0, "0.1": 0, "1": 0}
        assert output["max_abs"] == pytest.approx(0.005, rel=1e-3)
        assert output["max_ulp"] > 10
        assert main(["verify", model, "--other-target", "offset", "--max-drift", "1e-9"]) == ExitStatus.NOT_HELD
        assert {"ULP", ">0", ">1e-4", ">1"} <= set(capsys.readouterr().out.splitlines()[0].split())
        assert main(["verify", model, model, "--json"]) == ExitStatus.DELIVERED  # what was kept is of the other target
        assert json.loads(capsys.readouterr().out)["drift"]["max_abs"] == 0
        assert main(["verify", model, model, "--target", "offset"]) != ExitStatus.DELIVERED
        assert "error[target-differs]" in capsys.readouterr().err, "a backend that names the CPU is checked too"
        assert main(["verify", model]) == ExitStatus.USAGE
        assert main(["verify", model, "--other-target", "nowhere"]) == ExitStatus.USAGE


def test_what_the_runtime_refuses_is_told_of_the_users_file(tmp_path, capsys):
    model, other = write_network(tmp_path / "model.onnx", useful=1), tmp_path / "other.onnx"
    graph = onnx.load(model)
    graph.graph.node[0].domain = "acme"
    graph.opset_import.append(onnx.helper.make_opsetid("acme", 1))
    onnx.save(graph, other)
    assert main(["verify", str(model), str(other)]) == ExitStatus.BAD_INPUT
    text = capsys.readouterr().err
    assert "other-failed" in text
    assert "onnxruntime refuses other.onnx" in text


def test_a_model_with_inputs_of_other_names_is_refused_before_anything_is_timed(tmp_path, capsys):
    model, other = write_network(tmp_path / "model.onnx", useful=1), tmp_path / "other.onnx"
    graph = onnx.load(model)
    fed = graph.graph.input[0].name
    graph.graph.input[0].name = "other"
    for node in graph.graph.node:
        node.input[:] = ["other" if name == fed else name for name in node.input]
    onnx.save(graph, other)
    assert main(["bench", str(model), str(other)]) == ExitStatus.USAGE
    text = capsys.readouterr().err
    assert "error[other-inputs]" in text
    assert f"the samples lack 'other'; they have '{fed}'" in text
    assert "timing" not in text
