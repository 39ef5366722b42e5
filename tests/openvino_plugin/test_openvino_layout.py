"""The layout ``openvino``: opened by OpenVINO alone, with the properties of the result."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from optim import OptimError
from optim.layout import Result
from optim.onnx import describe_model
from optim.onnx.sessions import PLAIN_CPU
from optim_openvino.deploy.layout import OpenVino
from optim_openvino.runtime.properties import MODEL_CACHE, PRECISION, THREADS, as_session
from optim_openvino.runtime.targets import TARGET
from optim_testing import LayoutConformance, models


class TestOpenVino(LayoutConformance):
    plugin = "openvino"

    @pytest.fixture
    def layout_class(self):
        return OpenVino

    @pytest.fixture
    def settings(self):
        return as_session({THREADS: "1", MODEL_CACHE: "YES"})

    @pytest.fixture
    def result(self, tmp_path, files, settings):
        path = models.mlp(tmp_path)
        folder = path.parent / "run"
        folder.mkdir()
        return Result(folder, describe_model(path.rename(folder / "model.onnx"), session=settings), TARGET, files)

    @pytest.fixture
    def folder(self, tmp_path):
        folder = tmp_path / "laid"
        folder.mkdir()
        return folder

    def test_its_properties_are_those_of_the_result(self, result, options, folder):
        laid = OpenVino().write(result, folder, options)
        found = json.loads((folder / "properties.json").read_text())
        assert found == {"CPU": {PRECISION: "f32", "PERFORMANCE_HINT": "LATENCY", THREADS: "1"}}
        assert laid.session == result.model.session
        assert "CACHE_DIR" in laid.notes[0]

    def test_config_and_tokenizer_of_the_source_go_along(self, result, options, folder, tmp_path):
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "config.json").write_text("{}")
        OpenVino().write(replace(result, files=tmp_path / "files"), folder, options)
        assert (folder / "config.json").read_text() == "{}"

    def test_what_it_is_held_against_has_its_properties(self, result, feeds):
        rounded = replace(result, model=result.model.with_session(as_session({PRECISION: "bf16", THREADS: "1"})))
        exact, other = (OpenVino().expected(one, feeds, {})["y"] for one in (result, rounded))
        assert exact.shape == other.shape
        assert OpenVino().expected(result, feeds, {})["y"].tolist() == exact.tolist()

    def test_a_result_of_another_runtime_is_refused(self, result, options, folder):
        with pytest.raises(OptimError, match="it was proven and timed on") as caught:
            OpenVino().write(replace(result, target=PLAIN_CPU), folder, options)
        assert caught.value.reference == "layout-not-for-target"
        assert not list(folder.iterdir())
