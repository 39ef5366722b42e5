"""The layout ``optimum``, opened by sentence-transformers and by optimum itself."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from optim.layout import Result
from optim.onnx import describe_model
from optim.onnx.sessions import PLAIN_CPU
from optim_plugins.layouts.kinds.optimum import Optimum
from optim_plugins.layouts.options import OptimumOptions
from optim_testing import LayoutConformance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def delivered(deliver, consumers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimum") / "encoder"
    return folder, deliver("optimum", folder, opened_by=consumers)


def test_sentence_transformers_opens_it_and_computes_the_same(delivered):
    _, report = delivered
    assert report.status == "opened", report.text
    assert "sentence-transformers 5.2.0" in report.text
    assert report.samples > 0
    assert report.drift <= report.tolerance
    assert (report.graph, report.not_carried, report.cost) == ("onnx/model_optim.onnx", (), None)


def test_what_the_source_has_beside_its_weights_goes_along(delivered, hub_files):
    folder, _ = delivered
    names = {file.relative_to(hub_files) for file in hub_files.rglob("*") if file.is_file()}
    for name in names:
        assert (folder / name).read_bytes() == (hub_files / name).read_bytes()
    laid = {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()} - names
    assert {str(name) for name in laid} == {"delivery.json", "onnx/model_optim.onnx", "onnx/model_optim.onnx_data"}


@pytest.mark.parametrize("opens", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_where_it_has_no_pooling_optimum_alone_opens_it(deliver, request, hub_files, tmp_path, opens):
    files = tmp_path / "files"
    shutil.copytree(hub_files, files, ignore=shutil.ignore_patterns("modules.json", "1_Pooling"))
    more = {"opened_by": request.getfixturevalue("consumers")} if opens else {}
    report = deliver("optimum:tag=''", tmp_path / "out", files=files, **more)
    assert report.status == ("opened" if opens else "not-opened")
    assert report.text == "by optimum-onnx 0.1.0" or not opens
    assert (tmp_path / "out" / "onnx" / "model.onnx").is_file()


class TestOptimum(LayoutConformance):
    plugin = "layouts"

    @pytest.fixture
    def layout_class(self):
        return Optimum

    @pytest.fixture
    def files(self, hub_files):
        return hub_files

    @pytest.fixture
    def result(self, encoder_run, hub_files):
        return Result(encoder_run, describe_model(encoder_run / "model.onnx"), PLAIN_CPU, hub_files)


def test_a_graph_that_pools_itself_is_for_optimum_alone(encoder_run, hub_files, tmp_path):
    model = describe_model(encoder_run / "model.onnx")
    pooled = replace(model, outputs=(replace(model.outputs[0], name="sentence_embedding"),))
    laid = Optimum().write(Result(encoder_run, pooled, PLAIN_CPU, hub_files), tmp_path, OptimumOptions())
    assert not (tmp_path / "modules.json").exists()
    assert not (tmp_path / "1_Pooling").exists()
    assert any("--task feature-extraction" in note for note in laid.notes)
