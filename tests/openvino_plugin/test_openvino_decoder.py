"""A decoder generates on OpenVINO what it generates on onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from small_decoder import FACTS, write_decoder

import optim
from optim._engine.runs.session_file import write_session_files
from optim._engine.sources.export_file import ComponentFile, export_file, write_export_file
from optim.model import SessionConfig
from optim_openvino.runtime.targets import TARGET


@pytest.mark.parametrize("prompt", [[[3, 4, 5]], [[3], [7]]])
def test_a_decoder_generates_the_same_on_openvino(tmp_path, prompt):
    write_decoder(tmp_path)
    write_export_file(
        tmp_path, export_file("a/source", FACTS, {"model": ComponentFile("model.onnx", {"new": "old"}, 0)})
    )
    expected = optim.load(tmp_path).generate(prompt, max_new_tokens=5)
    write_session_files(tmp_path, SessionConfig(), TARGET, owner="optim-plugin-openvino", script="")
    decoder = optim.load(tmp_path)
    assert decoder.session.session.executed_on == {"openvino": 1.0}
    assert np.array_equal(decoder.generate(prompt, max_new_tokens=5), expected)
