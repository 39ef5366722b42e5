"""The package that ``optim plugins new`` writes: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from optim.errors import OptimError
from optim.passes import Stage
from optim_testing.scaffold.package import write_package


def test_a_package_that_cannot_be_moved_whole_leaves_the_folder_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, rename = [], Path.rename

    def fails_later(path: Path, to: Path) -> Path:
        if path.parent.name == "package":
            if moved:
                raise OSError(13, "Permission denied")
            moved.append(to)
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fails_later)
    with pytest.raises(OptimError):
        write_package("acme-half", tmp_path, [Stage.FUSE])
    assert moved and list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert write_package("acme-half", tmp_path, [Stage.FUSE])


def test_what_a_new_plugin_loads_is_exported_though_it_is_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of another kind, with the passes of this project beside those of the plugin."""
    package, source = tmp_path / "package", tmp_path / "source"
    write_package("acme-linear", package, [Stage.PRE_EXPORT, Stage.EXPORT])
    site = tmp_path / "site"
    shutil.copytree(package / "src", site)
    entry = site / "optim_plugin_acme_linear-0.1.0.dist-info"
    entry.mkdir()
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: optim-plugin-acme-linear\nVersion: 0.1.0\n")
    (entry / "entry_points.txt").write_text("[optim.plugins]\nacme-linear = optim_acme_linear.plugin\n")
    source.mkdir()
    rng = np.random.default_rng(0)
    np.savez(source / "linear.npz", weight=rng.standard_normal((3, 4), np.float32), bias=np.zeros(3, np.float32))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    command = [sys.executable, "-m", "optim", "export", str(source), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [node.op_type for node in onnx.load(tmp_path / "out" / "model.onnx").graph.node] == ["Gemm"]
