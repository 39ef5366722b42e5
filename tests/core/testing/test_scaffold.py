"""The package that ``optim plugins new`` writes: all of it, or nothing."""

from __future__ import annotations

from pathlib import Path

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
