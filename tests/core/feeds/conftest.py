from __future__ import annotations

import pytest
from feed_models import encoder, write


@pytest.fixture
def model(tmp_path):
    return write(encoder(), tmp_path / "encoder.onnx")
