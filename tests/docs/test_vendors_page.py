"""docs/vendors.md: its code runs, and its table of passes is what the plugin offers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from optim import OptimError, Target
from optim._engine.plugins.registry import load_registry

PAGE = (Path(__file__).parents[2] / "docs" / "vendors.md").read_text(encoding="utf-8")
STANDARD = {"ort.fix-shapes", "ort.convert-opset", "ort.clean", "ort.fuse-convolution"}


def code(heading: str) -> SimpleNamespace:
    """What the code below a heading defines."""
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.split(f"## {heading}\n")[1].split("\n## ")[0], re.DOTALL):
        exec(compile(block, heading, "exec"), names)
    return SimpleNamespace(**names)


def test_the_runtime_that_is_missing_is_said() -> None:
    found = code("A native runtime in a wheel of its own")
    assert "pip install acme-runtime" in found.probe()
    assert found.AcmeBackend().limits().opset == {"": 21}


def test_the_licence_is_taken_from_the_environment_or_asked_for(monkeypatch, tmp_path) -> None:
    found = code("A licence key")
    monkeypatch.setenv("ACME_LICENCE", "secret")
    assert found.licence() == "secret"
    monkeypatch.delenv("ACME_LICENCE")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(OptimError, match="acme-licence-missing"):
        found.licence()


def test_a_board_is_chosen_and_another_setting_refused() -> None:
    found = code("Devices that are found")
    assert found.configure({"board": "2"}).device == "Acme board 2"
    assert "/dev/acme0" in found.ACME.unavailable()
    with pytest.raises(OptimError, match="no setting 'speed'"):
        found.configure({"speed": "1"})


def test_time_is_taken_on_the_far_side() -> None:
    said = []

    def call(name, *arguments):
        said.append(name)
        return [0.25] * arguments[-1] if name == "time" else {"y": np.ones(1)}

    link = SimpleNamespace(call=call, close=lambda: said.append("close"))
    model = SimpleNamespace(path=Path(__file__))
    with code("A device on another machine").RemoteSession(link, model) as session:
        assert session.time_runs({}, 3) == [0.25] * 3
        session.run({})
    assert said == ["load", "time", "run", "close"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target("x", "x", "TensorrtExecutionProvider"), STANDARD | {"ort.convert-float16", "ort.mixed-precision"}),
        (Target("x", "x", "OpenVINOExecutionProvider"), STANDARD),
        (Target("x", "x", runtime="own", reads_onnx=True), STANDARD),
        (Target("x", "x", runtime="own"), {"ort.fix-shapes"}),
    ],
)
def test_the_table_says_what_is_offered(target, expected) -> None:
    offered = {one.name for one in load_registry(only=["ort"]).offers(target)}
    assert offered - {"ort.convert-bfloat16"} == expected
    said = PAGE.split("Those of standard operators are")[1].split(".\n")[0].split("Your own")[0]
    assert set(re.findall(r"`(ort\.[\w-]+)`", said)) == STANDARD
