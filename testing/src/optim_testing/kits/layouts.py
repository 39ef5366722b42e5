"""What every layout must hold, as tests: subclass, say which layout and what is laid out, and run pytest."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from optim.arrays import Feeds
from optim.drift import compare_outputs, objection
from optim.engine.testing import PLAIN_CPU, PluginInfo, class_defect
from optim.layout import Layout, Result, open_laid
from optim.model import SessionConfig
from optim.onnx import describe_model, open_session
from optim.options import PassOptions, parse_options
from optim_testing import models
from optim_testing.imports import imports_of
from optim_testing.kit import Kit
from optim_testing.offered import require_words


class LayoutConformance(Kit):
    """Subclass as ``TestMyLayout``, with the fixture that raises here.

    Attributes:
        values: what a user would write behind the colon.
        plugin: the plugin that brings it, for the rules of names.
        tolerance: largest drift of what its consumer computes, from ONNX Runtime.
    """

    values: ClassVar[Mapping[str, Any]] = {}
    plugin: ClassVar[str] = ""
    tolerance: ClassVar[float] = 1e-4

    @pytest.fixture
    def layout_class(self) -> type[Layout]:
        """The layout."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture layout_class that returns a Layout")

    @pytest.fixture
    def python(self) -> Path:
        """The Python that has the consumer; by default this one."""
        return Path(sys.executable)

    @pytest.fixture
    def files(self) -> Path | None:
        """Folder with config, tokenizer and the like; by default there is none."""
        return None

    @pytest.fixture
    def settings(self) -> SessionConfig:
        """Tuned settings of the result."""
        return SessionConfig({"intra_op_num_threads": 1})

    @pytest.fixture
    def result(self, tmp_path: Path, files: Path | None, settings: SessionConfig) -> Result:
        """The result to write; by default a small network that takes x and gives y."""
        path = models.mlp(tmp_path)
        folder = path.parent / "run"
        folder.mkdir()
        return Result(folder, describe_model(path.rename(folder / "model.onnx"), session=settings), PLAIN_CPU, files)

    @pytest.fixture
    def feeds(self) -> Feeds:
        """One sample for it."""
        return {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)}

    @pytest.fixture
    def options(self, layout_class: type[Layout]) -> PassOptions:
        """The options of this class."""
        return parse_options(layout_class, self.values)

    def test_its_name_fits_and_it_is_described(self, layout_class: type[Layout]) -> None:
        """What the registry checks when a plugin offers it."""
        defect = class_defect("layout", layout_class, PluginInfo(self.plugin or layout_class.name, "", "", ""))
        assert not defect, defect
        assert layout_class.opener.is_file(), f"there is no {layout_class.opener}"

    def test_its_options_are_documented(self, layout_class: type[Layout]) -> None:
        """Every option has a description."""
        require_words(layout_class)

    def test_it_says_what_it_needs(self, layout_class: type[Layout], options: PassOptions, files: Path | None) -> None:
        """A text: empty for what it takes, and a reason where its files are missing."""
        assert layout_class().refuse(files, options) == "", "it refuses the files of this test"
        reason = layout_class().refuse(None, options)
        assert isinstance(reason, str), "refuse returns a text, empty if nothing is missing"

    def test_it_writes_into_its_folder_alone(
        self, layout_class: type[Layout], result: Result, options: PassOptions, tmp_path: Path
    ) -> None:
        """The graph that it names is there, and the run folder is as it was."""
        before, folder = _digests(result.folder), tmp_path / "laid"
        folder.mkdir()
        laid = layout_class().write(result, folder, options)
        assert (folder / laid.graph).exists(), f"it says that the graph is {laid.graph}, which is not there"
        assert _digests(result.folder) == before, "it changed files of the run folder"
        files = [file for file in folder.rglob("*") if file.is_file()]
        linked = [file.name for file in files if file.is_symlink() or file.stat().st_nlink > 1]
        assert not linked, f"these are links, and onnx refuses weights in such a file: {', '.join(linked)}"

    def test_it_writes_the_same_twice(
        self, layout_class: type[Layout], result: Result, options: PassOptions, tmp_path: Path
    ) -> None:
        """Graphs and weights, byte by byte; what else it writes may have a date."""
        found = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            laid = layout_class().write(result, tmp_path / name, options)
            found.append((laid, hashlib.sha256((tmp_path / name / laid.graph).read_bytes()).hexdigest()))
        assert found[0] == found[1], "two times gave two things"

    def test_its_opener_needs_nothing_of_optim(self, layout_class: type[Layout]) -> None:
        """It is run in the consumer's Python."""
        text = layout_class.opener.read_text(encoding="utf-8")
        used = [line for line in text.splitlines() if line.startswith(("import optim", "from optim"))]
        assert not used, f"it imports {used[0]}: the consumer's Python has no optim"
        assert all(f"def {name}(" in text for name in ("missing", "open_and_run")), "it needs missing and open_and_run"

    def test_its_consumer_computes_the_same(
        self,
        layout_class: type[Layout],
        result: Result,
        options: PassOptions,
        feeds: Feeds,
        python: Path,
        tmp_path: Path,
    ) -> None:
        """What was written is opened, run, and compared with the result."""
        layout, folder = layout_class(), tmp_path / "laid"
        folder.mkdir()
        opened = open_laid(layout, layout.write(result, folder, options), folder, [feeds], python)
        if opened.missing:
            pytest.skip(opened.missing)
        session = open_session(result.model.path, SessionConfig())
        expected = dict(zip([one.name for one in session.get_outputs()], session.run(None, dict(feeds)), strict=True))
        assert set(opened.outputs[0]) == set(expected), "its outputs have other names"
        defect = objection(compare_outputs([(expected, opened.outputs[0])]), self.tolerance)
        assert not defect, f"its consumer computes something else than the result: {defect}"

    def test_importing_it_loads_nothing_heavy(self, layout_class: type[Layout]) -> None:
        """The plugin's module is imported by every command."""
        heavy = imports_of(layout_class.__module__)
        assert not heavy, f"importing {layout_class.__module__} loads {', '.join(heavy)}: import them inside functions"


def _digests(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
