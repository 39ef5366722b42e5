"""``optim draw``: the picture of one graph."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from optim.errors import OptimError
from optim_plugins.diagnose.draw.command import draw
from optim_testing import models


def drawn(*words: str | Path) -> str:
    done = CliRunner().invoke(draw, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)
    return done.stdout


def test_every_node_is_drawn_with_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "mlp.svg"
    assert drawn(models.mlp(tmp_path), "-o", path).strip() == f"{path}: 6 nodes"
    svg = path.read_text()
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]
    assert {"MatMul", "Gemm", "Relu", "input", "output"} <= set(texts)
    assert any(text and text.endswith(", 32") for text in texts)


def test_a_part_is_drawn_around_a_node(tmp_path: Path) -> None:
    model = models.encoder(tmp_path)
    with pytest.raises(OptimError) as caught:
        drawn(model, "-o", tmp_path / "part.svg", "--nodes", "5")
    assert caught.value.reference == "graph-too-large"
    name = caught.value.fix.split()[1]
    assert "5 nodes, " in drawn(model, "-o", tmp_path / "part.svg", "--around", name, "--nodes", "5")


def test_a_node_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        drawn(models.mlp(tmp_path), "--around", "nobody")
    assert caught.value.reference == "unknown-node"
