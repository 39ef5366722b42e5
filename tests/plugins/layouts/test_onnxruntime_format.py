"""The layout ``onnxruntime``: a file of its own format, in which the settings of the result are baked."""

from __future__ import annotations

import json

import onnxruntime
import pytest

from optim import SessionConfig
from optim_plugins.layouts import plugin
from optim_plugins.layouts.kinds.onnxruntime import OnnxRuntime
from optim_testing import LayoutConformance
from optim_testing.imports import imports_of

LEFT = {"session.intra_op.allow_spinning": "0"}


class TestOnnxRuntime(LayoutConformance):
    plugin = "layouts"

    @pytest.fixture
    def layout_class(self):
        return OnnxRuntime

    @pytest.fixture
    def settings(self):
        return SessionConfig(
            {"intra_op_num_threads": 1, "graph_optimization_level": "ORT_ENABLE_BASIC"}, LEFT, ("ConstantFolding",)
        )

    def test_it_says_what_it_is_tied_to_and_what_is_left(self, result, options, tmp_path):
        folder = tmp_path / "laid"
        folder.mkdir()
        laid = OnnxRuntime().write(result, folder, options)
        assert laid.tied_to.startswith(f"onnxruntime {onnxruntime.__version__} on ")
        assert laid.session == result.model.session
        left = json.loads((folder / "session.json").read_text())
        assert left == {"session_options": {"intra_op_num_threads": 1}, "session_config": LEFT}


def test_the_plugin_loads_nothing_heavy():
    assert imports_of(plugin.__name__) == []
