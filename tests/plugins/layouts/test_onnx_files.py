"""The layout ``onnx``: weights inside the graph, in one file or in many, by a size of the user's choice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from onnx import load

from optim import OptimError, SessionConfig
from optim.onnx import external_files
from optim.options import parse_options
from optim_plugins.layouts.kinds import onnx_files
from optim_plugins.layouts.kinds.onnx_files import OnnxFiles
from optim_testing import LayoutConformance

WEIGHTS = {"model.onnx.data.0", "model.onnx.data.1"}


class TestOnnxFiles(LayoutConformance):
    plugin = "layouts"
    values: ClassVar[Mapping[str, Any]] = {"size_threshold": 512, "all_tensors_to_one_file": False}

    @pytest.fixture
    def layout_class(self):
        return OnnxFiles

    @pytest.fixture
    def settings(self):
        return SessionConfig({"intra_op_num_threads": 1}, {}, ("ConstantFolding",))

    @pytest.mark.parametrize(
        ("given", "files"),
        [
            ({}, {"model.onnx.data"}),
            ({"all_tensors_to_one_file": False}, WEIGHTS),
            ({"size_threshold": 1 << 20}, set()),
            ({"size_threshold": 1 << 20, "all_tensors_to_one_file": False}, set()),
        ],
    )
    def test_weights_are_where_the_options_say(self, given, files, result, tmp_path):
        folder = tmp_path / "laid"
        folder.mkdir()
        laid = OnnxFiles().write(result, folder, parse_options(OnnxFiles, given))
        assert {path.name for path in folder.iterdir()} == {"model.onnx", "session.json", *files}
        assert set(external_files(folder / "model.onnx")) == files
        assert load(folder / laid.graph).graph.initializer[0].raw_data
        assert json.loads((folder / "session.json").read_text())["session_config"] == {
            "optimization.disable_specified_optimizers": "ConstantFolding"
        }

    def test_weights_that_were_outside_come_inside(self, result, tmp_path):
        folders = [tmp_path / name for name in ("apart", "whole")]
        for folder, threshold in zip(folders, (128, 1 << 20), strict=True):
            folder.mkdir()
            OnnxFiles().write(result, folder, parse_options(OnnxFiles, {"size_threshold": threshold}))
            result = replace(result, model=replace(result.model, path=folder / "model.onnx"))
        assert not external_files(folders[1] / "model.onnx")
        assert external_files(folders[0] / "model.onnx")

    def test_more_than_a_graph_has_room_for_is_refused(self, result, tmp_path, monkeypatch):
        monkeypatch.setattr(onnx_files, "LARGEST_GRAPH", 1000)
        with pytest.raises(OptimError, match="layout-failed") as refused:
            OnnxFiles().write(result, tmp_path, parse_options(OnnxFiles, {"size_threshold": 1 << 20}))
        assert refused.value.fix == "choose a lower size_threshold"


def test_shapes_stay_in_the_graph():
    with pytest.raises(OptimError, match="bad-option"):
        parse_options(OnnxFiles, {"size_threshold": 0})
