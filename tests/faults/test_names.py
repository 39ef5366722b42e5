"""Names in a model and of its file are anybody's: as tags, markup and escapes they reach no page, picture or table."""

from __future__ import annotations

from pathlib import Path
from xml.dom import minidom

import numpy as np
import onnx
import pytest
from case import Case, check_end
from feed_models import FLOAT, build, constant, value
from onnx import helper
from test_malformed_models import ESCAPES
from world import World

TAG = "<script>alert(1)</script>"
NAMES = {"a tag": TAG, "the end of a string": "\"'`)]]>--></style>" + TAG, "an escape": ESCAPES, "markup": "[bold]x[/]"}


def weighted(name: str) -> onnx.ModelProto:
    """A model with weights, so that lossy passes find something, and one name in every place."""
    table = constant(f"{name}w", np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32))
    node = helper.make_node("MatMul", [name, f"{name}w"], [f"{name}2"], name=name, doc_string=name)
    model = build([node], [value(name, FLOAT, ["batch", 16])], [value(f"{name}2", FLOAT, ["batch", 16])], [table])
    model.producer_name = model.producer_version = model.domain = model.graph.name = name
    model.metadata_props.add(key=name, value=name)
    return model


@pytest.fixture(
    params=[
        pytest.param(name, id=kind, marks=[pytest.mark.faults] if kind in ("an escape", "markup") else [])
        for kind, name in NAMES.items()
    ]
)
def named(request: pytest.FixtureRequest, world: World) -> tuple[World, Path]:
    """A model whose names, and that of its file, are one of these."""
    path = world.work / f"{request.param.replace('/', '|')[:40]}.onnx"
    path.write_bytes(weighted(request.param).SerializeToString())
    return world, path


def test_in_a_report(named: tuple[World, Path]) -> None:
    world, path = named
    done = world.run(
        ["run", str(path), "-o", str(world.out), "--search-seconds", "0.2", "--stage", "convert-precision"]
    )
    check_end(Case("run", status=(0,), json=False), done)
    page = (world.out / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<|script>" not in page
    assert not any(character in page for character in "\x1b\x07\u202e")
    assert "alert(1)" in page or "evil" in page or "[bold]" in page  # negative control: the name is on the page


def test_in_a_sensitivity(named: tuple[World, Path]) -> None:
    world, path = named
    picture = world.out.with_suffix(".svg")
    done = world.run(["sensitivity", str(path), "--as", "float16", "--seconds", "0.5", "--plot", str(picture)])
    check_end(Case("sensitivity", status=(0,), json=False), done)
    shown = minidom.parse(str(picture))  # what is no XML opens nowhere
    assert not shown.getElementsByTagName("script")
    texts = " ".join(node.firstChild.data for node in shown.getElementsByTagName("text") if node.firstChild)
    assert "alert(1)" in texts or "evil" in texts or "[bold]" in texts


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_in_a_table(named: tuple[World, Path], verb: str) -> None:
    world, path = named
    done = world.run([verb, str(path), *([str(path)] if verb == "verify" else [])])
    check_end(Case(verb, status=(0,), json=False), done)
    assert "[bold]" in done.out or "bold" not in str(path)  # markup is shown, not obeyed
